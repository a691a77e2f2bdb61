"""A sweep in memory: what it gives, lanes that fail, chunks that are not full, bad input."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.sweep import chunks as chunking
from jaxmbd.sweep.chunks import Chunks, choose_program, run_chunks
from jaxmbd.sweep.program import trace

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
    failing = run_chunks(Chunks(program, columns(values)), progress=False)
    assert all(failing["result"][places] > 1)
    assert all((failing["time_reached"][places] > 0) & (failing["time_reached"][places] < T1))
    assert np.all(np.isnan(failing["peak:mass.x"][places]))
    for name, all_well in found.items():
        np.testing.assert_array_equal(np.delete(failing[name], places), np.delete(all_well, places))
    assert np.all(found["result"] == 0)


def test_the_last_chunk_is_filled_up(program, found):
    few = run_chunks(Chunks(program, columns(STIFFNESSES[:3])), progress=False)
    for name, values in found.items():
        np.testing.assert_array_equal(few[name], values[:3])


def test_progress_counts_runs_and_failures(program, capsys):
    run_chunks(Chunks(program, columns([100.0, TOO_STIFF, 100.0])), progress=True)
    told = capsys.readouterr().err
    assert "3/3" in told
    assert "run/s" in told
    assert "1 failed" in told


def test_memory_does_not_depend_on_max_steps(program):
    unbounded = job()
    unbounded = unbounded._replace(options={**unbounded.options, "integrator": mbd.ExplicitNystrom(), "step": None, "max_step": 0.01})
    sizes = [
        trace(unbounded._replace(options={**unbounded.options, "max_steps": most}), columns(), 4).compiled().bytes
        for most in (100, 1_000_000)
    ]
    assert sizes[0] == sizes[1] < 1e6


def test_more_lanes_than_memory_are_refused_with_the_chunk_that_fits(monkeypatch, program):
    monkeypatch.setattr(chunking, "free_memory", lambda: 2 * chunking.threads() * program.bytes)  # half of it is room for 4 lanes
    with pytest.raises(ValueError, match=r"chunk = 4096 runs at once need .* more than there is: take chunk = \d, or leave it out"):
        choose_program(job(), columns(), 4096)
    assert choose_program(job(), columns(np.linspace(50, 400, 64)), None).program.width <= 8


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
