"""A mechanism for diffrax moves as it does here."""

import sys

import diffrax
import jax
import numpy as np
import pytest

import jaxmbd as mbd

T1 = 0.5


@pytest.fixture(scope="module")
def system():
    """Two rods, the first on a torsion spring that a fast start winds up by more than a full turn."""
    rods = [mbd.PlanarBody(f"rod{i}", mass=1.0, inertia=0.1, position=(0.5 + i, 0.0)) for i in range(2)]
    rods[0] = mbd.PlanarBody("rod0", mass=1.0, inertia=0.1, position=(0.5, 0.0), velocity=(0.0, 10.0), angular_velocity=20.0)
    rods[1] = mbd.PlanarBody("rod1", mass=1.0, inertia=0.1, position=(1.5, 0.0), velocity=(0.0, 20.0), angular_velocity=0.0)
    joints = [
        mbd.Revolute("hinge0", mbd.ground, rods[0], point=(0, 0)),
        mbd.Revolute("hinge1", rods[0], rods[1], point=(1, 0)),
    ]
    spring = mbd.TorsionSpringDamper("spring", mbd.ground, rods[0], stiffness=5.0, damping=0.1)
    return mbd.Model(rods, joints, [mbd.Gravity((0.0, -9.81)), spring]).build()


def test_motion_is_that_of_the_state_space_form_and_has_a_derivative(system):
    def with_diffrax(stiffness):
        term, start = mbd.to_diffrax(system.set({"spring.stiffness": stiffness}), stabilisation=5.0)
        controller = diffrax.PIDController(rtol=1e-9, atol=1e-9)
        run = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, T1, 1e-3, start, stepsize_controller=controller)
        end = jax.tree.map(lambda leaf: leaf[-1], run.ys)
        return end.q[4], end

    run = jax.jit(jax.value_and_grad(with_diffrax, has_aux=True))
    (_, there), slope = run(5.0)
    final = mbd.simulate(system, T1, integrator=mbd.DormandPrince(1e-9, 1e-9)).final
    assert final.memory.angles[0] > 2 * np.pi
    np.testing.assert_allclose(there.q, final.q, atol=1e-6)
    np.testing.assert_allclose(there.v, final.v, atol=1e-5)
    np.testing.assert_allclose(there.angles, final.memory.angles, atol=1e-6)
    (high, _), _ = run(5.01)
    (low, _), _ = run(4.99)
    np.testing.assert_allclose(slope, (high - low) / 0.02, rtol=1e-4)


def test_without_diffrax_one_line_says_how_to_get_it(system, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r'to_diffrax needs diffrax: pip install "jaxmbd\[diffrax\]"'):
        mbd.to_diffrax(system)
