"""A sweep in memory: what it gives, lanes that fail, chunks that are not full, bad input."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import jaxmbd as mbd
from jaxmbd.sweep import chunks as chunking
from jaxmbd.sweep.chunks import Chunks, Progress, choose_program, run_chunks
from jaxmbd.sweep.program import Compiled, trace

from .mechanism import OPTIONS, STIFFNESSES, T1, TOO_STIFF, columns, job, system


def test_a_sweep_is_a_dataset_with_names_units_and_statistics():
    masses, times = [1.0, 2.0], np.linspace(0.0, T1, 6)

    def swing(run):
        return {"swing": run.observe("range:mass.x"), "rows": run.ts.shape[0]}

    data = mbd.sweep(
        system(),
        {"spring.stiffness": STIFFNESSES[:3], "mass.mass": masses},
        T1,
        observe=["mass.x", "peak:mass.vx", swing],
        saveat=times,
        progress=False,
        **OPTIONS,
    )
    assert dict(data.sizes) == {"spring.stiffness": 3, "mass.mass": 2, "time": 6}
    assert data["mass.x"].dims == ("spring.stiffness", "mass.mass", "time")
    assert data["spring.stiffness"].attrs["units"] == "N/m"
    assert (data["mass.x"].attrs["units"], data["peak:mass.vx"].attrs["units"]) == ("m", "m/s")
    np.testing.assert_array_equal(data["rows"], 6)
    one = data.sel({"spring.stiffness": STIFFNESSES[2], "mass.mass": 2.0})
    changed = system().set({"spring.stiffness": STIFFNESSES[2], "mass.mass": 2.0})
    run = mbd.simulate(changed, T1, saveat=times, **OPTIONS)
    # A lane takes the steps of a single run, its sums may be in another order.
    np.testing.assert_allclose(one["mass.x"], run.observe("mass.x"), rtol=1e-12)
    np.testing.assert_allclose(one["swing"], run.observe("range:mass.x"), rtol=1e-10)
    assert int(one["steps"]) == run.stats["steps"] == 50
    assert data["result"].attrs["flag_meanings"][0] == "the run reached its end."


def test_lanes_that_fail_have_code_and_time_and_leave_the_others_alone(program, found):
    places = [3, 5]
    values = STIFFNESSES.copy()
    values[places] = TOO_STIFF
    failing = run_chunks(Chunks(program, columns(values)))
    assert all(failing["result"][places] > 1)
    assert all((failing["time_reached"][places] > 0) & (failing["time_reached"][places] < T1))
    assert np.all(np.isnan(failing["peak:mass.x"][places]))
    for name, all_well in found.items():
        np.testing.assert_array_equal(np.delete(failing[name], places), np.delete(all_well, places))
    assert np.all(found["result"] == 0)


def test_the_last_chunk_is_filled_up(program, found):
    few = run_chunks(Chunks(program, columns(STIFFNESSES[:3])))
    for name, values in found.items():
        np.testing.assert_array_equal(few[name], values[:3])


def test_algebra_of_small_matrices_starts_no_threads_while_chunks_run(program):
    seen = []

    class Looking(Compiled):
        def run(self, given):
            seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
            return super().run(given)

    before = threadpool_info()
    run_chunks(Chunks(Looking(*program), columns()))
    assert set(seen) == {1}
    assert threadpool_info() == before


def test_programs_that_call_the_algebra_library_run_one_at_a_time(program):
    lowered = jax.jit(jax.vmap(jnp.linalg.solve)).lower(jnp.ones((4, 30, 30)), jnp.ones((4, 30)))
    assert program.threads == chunking.threads()
    assert program._replace(program=program.program._replace(lowered=lowered)).threads == 1


def test_progress_counts_runs_and_failures(program, capsys):
    with Progress(True, 3) as bar:
        assert "compiling" in capsys.readouterr().err
        bar.compiled()
        run_chunks(Chunks(program, columns([100.0, TOO_STIFF, 100.0])), bar)
    told = capsys.readouterr().err
    assert "compiling" not in told
    assert "3/3" in told
    assert "run/s" in told
    assert "1 failed" in told


def test_memory_does_not_depend_on_max_steps():
    adaptive = job()
    adaptive = adaptive._replace(options={**adaptive.options, "integrator": mbd.ExplicitNystrom(), "step": None, "max_steps": 1_000_000})
    assert trace(adaptive, columns(), 4).compiled().bytes < 1e6  # a number for each step would be 32 MB


@pytest.fixture
def fake_programs(monkeypatch):
    """Programs that take a megabyte for each lane, on a device with so many megabytes for all chunks at a time."""

    def trace(job, columns, width):
        return SimpleNamespace(compiled=lambda: SimpleNamespace(program=SimpleNamespace(width=width), bytes=1_000_000 * width))

    monkeypatch.setattr(chunking, "trace", trace)
    return lambda megabytes: monkeypatch.setattr(chunking, "free_memory", lambda: 2 * chunking.threads() * 1_000_000 * megabytes)


def test_more_lanes_than_memory_are_refused_with_the_chunk_that_fits(fake_programs):
    fake_programs(100)
    message = r"chunk = 4096 runs at once need 4.1 GB of memory, more than there is: take chunk = 100, or leave it out"
    with pytest.raises(ValueError, match=message):
        choose_program(job(), {"mass.mass": np.ones(5000)}, 4096)
    with pytest.raises(ValueError, match=r"the store was begun with it, so free some, or begin anew in another with chunk = 100"):
        choose_program(job(), {"mass.mass": np.ones(5000)}, 4096, begun=True)
    assert choose_program(job(), {"mass.mass": np.ones(5000)}, 100).program.width == 100
    assert choose_program(job(), {"mass.mass": np.ones(5000)}, None).program.width == 100


def test_long_sweeps_take_wider_chunks_if_these_are_faster(fake_programs, monkeypatch):
    fake_programs(10_000)
    few, many = ({"mass.mass": np.ones(count)} for count in (1000, 100_000))
    for slower, width in ((3.9, 1024), (4.1, 256)):
        monkeypatch.setattr(chunking, "_seconds", lambda program, columns, slower=slower: slower if program.program.width == 1024 else 1.0)
        assert choose_program(job(), many, None).program.width == width
        assert choose_program(job(), few, None).program.width == 256  # not worth a second compilation


def test_the_sweep_runs_on_an_accelerator_as_it_is(program):
    lanes = jax.jit(jax.vmap(job().lane))
    exported = jax.export.export(lanes, platforms=["cuda"])({name: values[:4] for name, values in columns().items()})
    assert exported.platforms == ("cuda",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observe": "mass.x"}, "'mass.x' is a number for each time: say which, saveat=times"),
        ({"observe": "peak:mas.x"}, "Did you mean 'mass.x'"),
        ({"observe": []}, "observe must be names"),
        ({"observe": [3]}, "observe must be names"),
        ({"observe": lambda run: run.q[-1]}, r"'observed' must be one number for a run .* got an array of shape \(2,\)"),
        ({"observe": lambda run: {"a": "text"}}, "'a' must be a number"),
        ({"observe": lambda run: {"steps": run.ts[-1]}}, "cannot have the name 'steps'"),
        ({"saveat": mbd.SaveAt(steps=True)}, "keeps no steps"),
        ({"saveat": [0.0, 2.0]}, "saveat must lie between"),
        ({"kernels": "vector"}, "kernels must be 'auto', 'scalar' or 'array', got 'vector'"),
        ({"chunk": 0}, "chunk must be a whole number of runs"),
        ({"model": 3}, "model must be an mbd.Model"),
    ],
)
def test_bad_input_is_told(arguments, message):
    given = {"model": system(), "parameters": {"mass.mass": [1.0, 2.0]}, "t1": T1, "observe": "peak:mass.x", "progress": False, **OPTIONS}
    with pytest.raises(ValueError, match=message):
        mbd.sweep(**given | arguments)


def test_an_argument_that_no_run_takes_is_told():
    with pytest.raises(TypeError, match=r"unknown argument 'stp'. Did you mean 'step'"):
        mbd.sweep(system(), {"mass.mass": [1.0]}, T1, observe="peak:mass.x", stp=0.1)


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [("xarray", "sweep", {}), ("threadpoolctl", "sweep", {}), ("zarr", "sweep", {"store": "here"}), ("dask", "cluster", {"client": 1})],
)
def test_an_extra_that_is_missing_is_told_with_the_command(package, extra, arguments, monkeypatch):
    for name in (package, f"{package}.distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'pip install "jaxmbd\[{extra}\]"'):
        mbd.sweep(system(), {"mass.mass": [1.0]}, T1, observe="peak:mass.x", **arguments)
