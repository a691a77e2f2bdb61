"""Large mechanisms by blocks: the same matrices, starts, motions and derivatives as by dense ones."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng

import jaxmbd as mbd
from jaxmbd.integrators.hht_equations import Averages, Coefficients, HHTEquations
from jaxmbd.problems import four_bar
from jaxmbd.problems.pendulums import chain
from jaxmbd.running.starting import consistent_start
from jaxmbd.system.blocks.structure import give_away


def both(model):
    """The same system with dense matrices and with blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # redundant rows, named elsewhere
        return model.build("dense"), model.build("block")


def dense_of(structure, blocks):
    """The matrix of blocks."""
    index, n = np.asarray(structure.algebra.index), structure.algebra.back.shape[0]
    found = np.zeros((n + 1, n + 1))
    for i, j, block in zip(structure.algebra.rows, structure.algebra.columns, np.asarray(blocks), strict=True):
        found[np.ix_(index[i], index[j])] += block
    return found[:n, :n]


def fleet():
    """Bodies of several kinds under forces of many: states of bristles, a penalty joint, springs, a drive, contact, three joints on one body."""
    base = mbd.RigidBody("base", 5.0, (0.4, 0.5, 0.6), position=(0.0, 0.2, 0.1), velocity=(0.3, 0.0, 0.1), angular_velocity=(0.1, 0.2, 0.3))
    arm = mbd.RigidBody("arm", 1.0, (0.1, 0.02, 0.1), position=(0.5, 0.2, 0.1))
    ball = mbd.RigidBody("ball", 0.5, (0.01, 0.01, 0.01), position=(0.0, 0.6, 0.09), angular_velocity=(3.0, 0.0, 1.0))
    bob = mbd.PointMass("bob", 0.3, position=(1.0, 0.1, 0.2))
    law = mbd.HuntCrossley(stiffness=1e4, damping=0.2)
    bristles = mbd.LuGre(1e4, static=0.6, kinetic=0.4, bristle_damping=10.0)
    joints = [
        mbd.Revolute("pin", base, arm, point=(0.25, 0.2, 0.1), axis=(0, 0, 1)),
        mbd.Motion("drive", base, arm, (0.25, 0.2, 0.1), (0, 0, 1), lambda t: 0.2 * t**2),
        mbd.Spherical("socket", mbd.ground, base, point=(0.0, 0.0, 0.1)),
        mbd.Spherical("mount", arm, ball, point=(0.4, 0.5, 0.1), penalty=mbd.Penalty(1e4, 10.0)),
        mbd.Distance("rope", arm, bob, point1=(0.7, 0.2, 0.1), point2=(1.0, 0.1, 0.2)),
    ]
    forces = [
        mbd.Gravity((0.0, 0.0, -9.81)),
        mbd.SpringDamper("spring", mbd.ground, ball, (0.3, 1.0, 0.1), (0.0, 0.6, 0.09), stiffness=300.0, damping=2.0),
        mbd.SpherePlane("touch", ball, mbd.ground, 0.1, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), law, bristles, allow_overlap=True),
    ]
    return mbd.Model([base, arm, ball, bob], joints, forces)


MODELS = {
    "closed": lambda: chain(4, spatial=False, closed=True),
    "redundant": lambda: four_bar(spatial=True),
    "fleet": fleet,
}
QUICK = ("closed",)


@pytest.fixture(scope="module", params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS])
def pair(request):
    return both(MODELS[request.param]())


@eqx.filter_jit
def matrices(system, state, z, h):
    """The scaled Jacobian of a step, whatever its form."""
    c = Coefficients(jnp.array(-0.3), jnp.array(0.4225), jnp.array(0.8))
    equations = HHTEquations.of_step(system.prepare(), c, state, h)
    return equations.scaled_jacobian(equations.scaling())(z), equations.residual(z)


def test_starts_and_matrices_are_those_of_the_dense_path(pair):
    dense, block = pair
    starts = consistent_start(dense), consistent_start(block)
    for field in ("q", "v", "acceleration"):
        a, b = (getattr(start, field) for start in starts)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * (1 + np.max(np.abs(a))))
    # The same rows dropped, at another point.
    state = dataclasses.replace(starts[1], method=Averages(starts[1].acceleration, starts[1].state_rate, jnp.zeros(())))
    z = jnp.asarray(default_rng(0).normal(size=block.structure.algebra.back.shape[0]))
    h = jnp.array(0.01)
    expected, found = matrices(dense, state, z, h)[0], matrices(block, state, z, h)[0]
    np.testing.assert_allclose(dense_of(block.structure, found), expected, rtol=1e-10, atol=1e-10 * np.max(np.abs(expected)))


BY_BDF = pytest.param(mbd.BDF(order=2, index="stabilized-2"), marks=pytest.mark.slow, id="bdf")


@pytest.mark.parametrize("integrator", [pytest.param(mbd.HHT(), id="hht"), BY_BDF])
def test_runs_and_their_derivatives_are_those_of_the_dense_path(integrator):
    """A loop whose last joint finds no body: 20 steps, and the slope of where it comes to by a mass."""

    @jax.jit
    @jax.value_and_grad
    def end(mass, system):
        run = mbd.simulate(system.set({"link2.mass": mass}), 0.1, step=5e-3, integrator=integrator, saveat=mbd.SaveAt(t1=True))
        return jnp.sum(run.final.q**2)

    (a, slope_a), (b, slope_b) = (end(0.13, system) for system in both(chain(3, spatial=False, closed=True)))
    assert b == pytest.approx(float(a), rel=1e-11)
    assert slope_b == pytest.approx(float(slope_a), rel=1e-9)


def test_large_models_take_blocks_by_themselves():
    assert chain(8).build().structure is None
    assert chain(30).build().structure is not None


def test_what_algebra_means_and_what_blocks_cannot_serve():
    with pytest.raises(ValueError, match="'auto', 'dense', 'block': got 'sparse'"):
        chain(2).build("sparse")
    arm = mbd.PlanarBody("arm", 1.0, 0.1, position=(0.5, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, arm, (0, 0), penalty=mbd.Penalty(1e6, 1e2))
    model = mbd.Model([arm], [hinge], [mbd.JointFriction("pin", hinge, mbd.Coulomb(0.1), radius=0.01)])
    with pytest.raises(ValueError, match="force 'pin' depends on reactions"):
        model.build("block")


def test_links_are_given_to_their_bodies_and_each_body_has_one():
    links = [(0,), (0, 1), (1, 2), (2, 3), (0, 3), (1, 3)]
    owner = give_away(links, 4)
    assert len(owner) == len(set(owner.values())) == 4
    assert all(body in link for link, body in owner.items())
