"""Numbers that turn out to be out of range when a compiled program runs: the code of their lane, or an error that says the sentence first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.bodies.rigid import _physical_inertia
from jaxmbd.system.faults.validity import expectations, first_unusable

from .test_export import point_on_a_spring

SYSTEM = point_on_a_spring(rod=False)
STEPS = {"integrator": mbd.Verlet(), "step": 1e-3}


def swing(stiffness, **options):
    return mbd.simulate(SYSTEM.set({"spring.stiffness": stiffness}), 0.01, **STEPS, **options)


def lane(batch, i):
    return jax.tree.map(lambda leaf: leaf[i], batch)


class TestWithoutThrowing:
    @pytest.fixture(scope="class")
    @staticmethod
    def batch():
        def end(stiffness):
            run = swing(stiffness, throw=False)
            return run.final.q[0], run

        program = jax.jit(jax.vmap(jax.value_and_grad(end, has_aux=True)))
        (_, runs), slopes = program(jnp.array([300.0, -1.0, np.nan, np.inf, 200.0]))
        return runs, slopes

    def test_each_lane_has_its_own_code(self, batch):
        runs, _ = batch
        np.testing.assert_array_equal(runs.result == mbd.RESULTS.bad_parameter, [False, True, True, True, False])
        np.testing.assert_array_equal(runs.result == mbd.RESULTS.successful, [True, False, False, False, True])
        np.testing.assert_array_equal(runs.stats["steps"], [10, 0, 0, 0, 10])

    def test_the_message_names_the_parameter(self, batch):
        message = lane(batch[0], 1).message
        assert message.startswith("stiffness of force 'spring' must not be negative; the run did not start, because a number")
        with pytest.raises(mbd.SimulationError, match=r"^stiffness of force 'spring' must not be negative; "):
            lane(batch[0], 1).raise_if_failed()

    def test_the_other_lanes_are_what_they_are_alone(self, batch):
        runs, slopes = batch
        for i, stiffness in ((0, 300.0), (4, 200.0)):
            np.testing.assert_allclose(runs.final.q[i], swing(stiffness).final.q, rtol=1e-14)
            difference = (swing(stiffness + 0.1).final.q[0] - swing(stiffness - 0.1).final.q[0]) / 0.2
            np.testing.assert_allclose(slopes[i], difference, rtol=1e-6)

    def test_what_is_not_a_run_becomes_nan(self):
        force = jax.jit(jax.vmap(lambda k: SYSTEM.set({"spring.stiffness": k}).force(SYSTEM.q0, SYSTEM.v0, 0.0)))
        np.testing.assert_array_equal(np.isnan(force(jnp.array([300.0, -1.0]))), [[False, False], [True, True]])


class TestThrowing:
    def test_a_compiled_program_says_the_sentence_and_little_else(self, caplog):
        program = jax.jit(lambda k: swing(k).final.q)
        for _ in range(2):  # JAX raises a RuntimeError from the first call of a program, and a ValueError from the next
            with pytest.raises(Exception, match=r"\nFailure: stiffness of force 'spring' must not be negative; the run did not") as caught:
                jax.block_until_ready(program(-1.0))
            assert len(str(caught.value).splitlines()) <= 3
        np.testing.assert_allclose(program(300.0), swing(300.0).final.q, rtol=1e-14)
        assert not caplog.records

    def test_a_batch_outside_jit_raises_it_as_it_is(self):
        with pytest.raises(RuntimeError, match=r"^stiffness of force 'spring' must not be negative; "):
            jax.vmap(lambda k: swing(k).final.q)(jnp.array([300.0, -1.0]))

    def test_this_takes_a_call_to_the_host(self):
        """So that the search for such calls in exported programs is known to find them."""
        program = jax.jit(lambda k, throw: swing(k, throw=throw).final.q, static_argnums=1)
        found = ["custom_call @xla_ffi_python_cpu_callback" in program.lower(300.0, throw).as_text() for throw in (True, False)]
        assert found == [True, False]


class TestWhatElseARunIsGiven:
    @pytest.fixture(scope="class")
    @staticmethod
    def run():
        @jax.jit
        def run(alpha, t1, first_step):
            method = mbd.SemiExplicit(alpha)
            return mbd.simulate(SYSTEM, t1, t0=0.5, integrator=method, first_step=first_step, max_steps=64, throw=False)

        return run

    @pytest.mark.parametrize(
        ("alpha", "t1", "first_step", "guilty"),
        [(1.5, 0.51, 1e-3, "alpha of SemiExplicit"), (0.5, 0.4, 1e-3, "t1"), (0.5, np.nan, 1e-3, "t1"), (0.5, 0.51, -1e-3, "first_step")],
    )
    def test_numbers_of_the_integrator_and_of_time(self, run, alpha, t1, first_step, guilty):
        solution = run(alpha, t1, first_step)
        assert bool(solution.result == mbd.RESULTS.bad_parameter)
        assert solution.message.startswith(f"{guilty} is out of its range; ")

    def test_good_ones_run(self, run):
        assert bool(run(0.5, 0.51, 1e-3).result == mbd.RESULTS.successful)


def blame(change):
    """Of numbers that are set or built under jit: a sentence for the first bad one, or nothing."""

    def judge(*values):
        system = change(*values)
        sentences.extend(expectations(system))
        return first_unusable(system)

    def ask(*values):
        number = int(program(*values))
        return sentences[number] if number >= 0 else ""

    sentences: list[str] = []
    program = jax.jit(judge)
    return ask


def test_a_law_made_from_a_bad_material_is_blamed():
    """The material is not part of the system, nor are curvatures: what follows from them is."""
    ball = mbd.RigidBody("ball", 1.0, (1.0, 1.0, 1.0), (0.0, 0.0, 1.0))

    def change(modulus, radius):
        law = mbd.Hertz(mbd.HertzPoint.spheres(1.0, radius, mbd.Material(modulus)))
        return mbd.Model([ball], forces=[mbd.SpherePlane("floor", ball, mbd.ground, 1.0, (0, 0, 0), (0, 0, 1), law)]).build()

    ask = blame(change)
    assert ask(2e11, 10.0) == ask(2e11, -2.0) == ""
    assert ask(-1.0, 10.0) == "stiffness of force 'floor' must be positive"
    assert ask(2e11, -0.5) == "stiffness of force 'floor' must be positive"  # a hollow that is tighter than the ball


def test_the_guilty_one_of_a_stack_is_named():
    masses = [mbd.PointMass(f"mass {i}", 1.0, position=(float(i), 0.0)) for i in range(3)]
    system = mbd.Model(masses, forces=[mbd.Gravity((0.0, -9.81))]).build()
    ask = blame(lambda a, b: system.set({"mass 2.mass": a, "mass 1.position": b * jnp.ones(2)}))
    assert ask(1.0, 1.0) == ""
    assert ask(0.0, 1.0) == "mass of body 'mass 2' must be positive"
    assert ask(1.0, np.inf) == "position of body 'mass 1' must be finite"


def test_an_inertia_is_physical_by_its_pivots_if_it_is_by_its_moments():
    random = np.random.default_rng(0)
    moments = random.uniform(-0.1, 1.0, (2000, 3)) * 10.0 ** random.uniform(-9, 9, (2000, 1))
    moments[:4] = [(1.0, 1.0, 2.0), (1e-12, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 2.0 + 1e-6)]  # a plate, a rod, a ball, none
    turns = np.linalg.qr(random.normal(size=(2000, 3, 3)))[0]
    low, middle, high = np.sort(moments, axis=1).T
    expected = (low > 0) & (high <= (low + middle) * (1 + 1e-9))
    matrices = np.einsum("nij,nj,nkj->nik", turns, moments, turns)
    assert 300 < np.sum(expected) < 1700
    np.testing.assert_array_equal([_physical_inertia(matrix) for matrix in matrices], expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(_physical_inertia))(matrices), expected)
