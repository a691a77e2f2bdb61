"""Friction in joints: a torque or force in proportion to the reaction, which depends on it in turn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

GRAVITY, MASS, INERTIA, ARM = 9.81, 2.0, 0.5, 1.0
FRICTION, PIN, REGULARISATION = 0.3, 0.1, 1e-2
PUSH, OFFSET, SLEEVE = 40.0, 0.3, 0.2
"""N, m, m: a side load beside the middle of a sleeve"""
SLIDING = 0.01
RING = 0.05
"""m"""
T1 = 0.8
INTEGRATORS = {"hht": mbd.HHT(1e-6), "bdf": mbd.BDF(1e-6, velocity_error=True)}


def pin(hinge):
    return mbd.JointFriction("pin", hinge, mbd.Coulomb(FRICTION, regularisation=REGULARISATION), PIN)


@pytest.fixture(scope="module")
def planar():
    """A pendulum with a pin; and two blocks that slide under a side load, one of them in a sleeve that carries at its ends."""
    rod = mbd.PlanarBody("rod", MASS, INERTIA, position=(ARM, 0.0))
    blocks = [
        mbd.PlanarBody(name, 1.0, 0.1, position=(0.0, height), velocity=(2.0, 0.0)) for name, height in (("short", 2.0), ("long", 3.0))
    ]
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0.0, 0.0))
    guides = [mbd.Translational(f"{block.name} guide", mbd.ground, block, block.position, (1.0, 0.0)) for block in blocks]
    law = mbd.Coulomb(SLIDING)
    forces = [
        mbd.Gravity((0.0, -GRAVITY)),
        pin(hinge),
        mbd.JointFriction("short friction", guides[0], law),
        mbd.JointFriction("long friction", guides[1], law, length=SLEEVE),
        *(mbd.PointForce(f"{b.name} push", b, (OFFSET, b.position[1]), (0.0, -PUSH)) for b in blocks),
    ]
    return mbd.Model([rod, *blocks], [hinge, *guides], forces).build()


@pytest.fixture(scope="module")
def spatial():
    """The same pendulum; and a ring of inertia m r^2 that slides and turns on a horizontal pin of its radius r."""
    rod = mbd.RigidBody("rod", MASS, (0.1, INERTIA, INERTIA), position=(ARM, 0.0, 0.0))
    ring = mbd.RigidBody(
        "ring", 1.0, (RING**2,) * 3, position=(0.0, 0.0, 2.0), velocity=(0.0, 0.0, 0.9), angular_velocity=(0.0, 0.0, 1.2 / RING)
    )
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    bearing = mbd.Cylindrical("bearing", mbd.ground, ring, ring.position, (0.0, 0.0, 1.0))
    forces = [mbd.Gravity((0.0, -GRAVITY, 0.0)), pin(hinge), mbd.JointFriction("friction", bearing, mbd.Coulomb(0.1), RING)]
    return mbd.Model([rod, ring], [hinge, bearing], forces).build()


def pendulum(ts):
    """Angle, rate, reaction of the pin's normal force and energy, in the angle alone. The acceleration is part of the reaction."""

    def accelerate(angle, rate):
        slip = PIN * rate
        resisted = FRICTION * PIN * slip / np.hypot(slip, REGULARISATION)
        acceleration = 0.0
        for _ in range(60):  # contracts by FRICTION PIN MASS ARM / (INERTIA + MASS ARM^2) at least
            along = MASS * (GRAVITY * np.sin(angle) - ARM * rate**2)
            across = MASS * (GRAVITY * np.cos(angle) + ARM * acceleration)
            load = np.hypot(along, across)
            acceleration = -(MASS * GRAVITY * ARM * np.cos(angle) + resisted * load) / (INERTIA + MASS * ARM**2)
        return acceleration, load, -resisted * load

    run = solve_ivp(lambda t, s: [s[1], accelerate(*s)[0]], (0.0, ts[-1]), [0.0, 0.0], method="DOP853", t_eval=ts, rtol=1e-11, atol=1e-12)
    angle, rate = run.y
    _, load, torque = accelerate(angle, rate)
    energy = 0.5 * (INERTIA + MASS * ARM**2) * rate**2 + MASS * GRAVITY * ARM * np.sin(angle)
    return angle, rate, load, torque, energy


@pytest.fixture(scope="module", params=["hht", pytest.param("bdf", marks=pytest.mark.slow)])
def planar_run(request, planar):
    return mbd.simulate(planar, T1, integrator=INTEGRATORS[request.param])


def test_a_pin_brakes_by_its_reaction(planar_run):
    angle, rate, load, torque, _ = pendulum(np.asarray(planar_run.ts))
    seen = planar_run.observe(["hinge.angle", "hinge.rate", "hinge.force", "pin.normal_force", "pin.tz", "pin.slip_speed"])
    np.testing.assert_allclose(seen["hinge.angle"], angle, atol=2e-4)
    np.testing.assert_allclose(seen["hinge.rate"], rate, atol=4e-4)
    np.testing.assert_allclose(seen["pin.normal_force"], seen["hinge.force"], rtol=1e-12)
    np.testing.assert_allclose(seen["pin.slip_speed"], PIN * np.abs(seen["hinge.rate"]), rtol=1e-12)
    settled = np.asarray(planar_run.ts) > 0.1  # index-3 multipliers begin less accurate
    np.testing.assert_allclose(seen["pin.normal_force"][settled], load[settled], rtol=2e-3)
    np.testing.assert_allclose(seen["pin.tz"][settled], torque[settled], rtol=2e-3)
    at_start = planar_run.observe("hinge.force")[0]
    np.testing.assert_allclose(at_start, load[0], rtol=1e-9)


def test_a_guide_brakes_by_its_side_load(planar_run):
    """A short one by the sum of forces, a long one by what its ends carry, which is more where the load tilts it."""
    loads = {"short": GRAVITY + PUSH, "long": 2.0 * PUSH * OFFSET / SLEEVE}
    assert loads["long"] > loads["short"]
    t = np.asarray(planar_run.ts)
    for name, load in loads.items():
        # Regularisation is felt as (v_r / v)^2 / 2 of friction, 5e-7 at most.
        np.testing.assert_allclose(planar_run.velocity(name)[:, 0], 2.0 - SLIDING * load * t, atol=1e-4)


def test_the_energy_that_friction_takes_is_what_is_missing(planar_run):
    work, energy = planar_run.work(), planar_run.energy().total
    lost = {name: np.asarray(work[name].supplied) for name in ("pin", "short friction", "long friction")}
    assert all(supplied[-1] < -0.5 for supplied in lost.values())
    reference = pendulum(np.asarray(planar_run.ts))[-1]
    np.testing.assert_allclose(lost["pin"], reference - reference[0], atol=2e-3)
    supplied = sum(np.asarray(part.supplied) for part in work.values())
    np.testing.assert_allclose(energy - energy[0], supplied, atol=5e-3)
    torque = planar_run.force("pin").torque[:, 1]
    np.testing.assert_allclose(torque, planar_run.observe("pin.tz"), rtol=1e-12)


@pytest.mark.parametrize("method", [pytest.param("hht", marks=pytest.mark.slow), "bdf"])
def test_in_space(spatial, method):
    """The ring's slip, (travel, radius times rate) = (0.9, 1.2), is braked along itself by mu g."""
    run = mbd.simulate(spatial, 0.6, integrator=INTEGRATORS[method])
    seen = run.observe(["hinge.angle", "hinge.rate", "bearing.travel_rate", "bearing.rate"])
    t = np.asarray(run.ts)
    angle, rate, *_ = pendulum(t)
    np.testing.assert_allclose(seen["hinge.angle"], angle, atol=2e-4)
    np.testing.assert_allclose(seen["hinge.rate"], rate, atol=4e-4)
    slip = 1.5 - 0.1 * GRAVITY * t
    np.testing.assert_allclose(seen["bearing.travel_rate"], 0.6 * slip, atol=2e-4)
    np.testing.assert_allclose(RING * seen["bearing.rate"], 0.8 * slip, atol=2e-4)


def test_newton_matrix_is_exact(planar_run):
    """It has Q_lambda beside Phi_q^T, and columns of q that share no row are differentiated together."""
    method = mbd.BDF() if planar_run.orders is not None else mbd.HHT()

    @eqx.filter_jit
    def matrices(system, state):
        equations = method.equations(system, state, jnp.asarray(1e-2))
        z = equations.first_guess() + 0.1
        return equations.jacobian(z), jax.jacfwd(equations.residual)(z)

    fast, plain = matrices(planar_run.system, planar_run.final)
    np.testing.assert_allclose(fast, plain, atol=1e-12 * np.max(np.abs(plain)))


# --- elements -----------------------------------------------------------------------------------------------------------------------------


def hinged(friction, **options):
    """A rod on a hinge with what `friction(hinge, rod)` makes."""
    rod = mbd.PlanarBody("rod", MASS, INERTIA, position=(ARM, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0.0, 0.0), **options)
    return mbd.Model([rod], [hinge], [mbd.Gravity((0.0, -GRAVITY)), friction(hinge, rod)])


def own_law(ground, rod, t, hinge):
    load, slip = jnp.sqrt(hinge.force @ hinge.force), PIN * rod.angular_velocity[2]
    resisted = FRICTION * PIN * load * slip / jnp.sqrt(slip**2 + REGULARISATION**2)
    return jnp.zeros(3), jnp.array([0.0, 0.0, -resisted])


def test_a_law_of_ones_own_receives_reactions():
    ready = hinged(lambda hinge, rod: pin(hinge)).build()
    own = hinged(lambda hinge, rod: mbd.ForceFunction("pin", mbd.ground, rod, own_law, reactions=hinge)).build()
    assert own.multiplier_forces() == ("force 'pin' (by the reaction of joint 'hinge')",)
    q, v, t, multipliers = jnp.array([0.6, -0.8, -0.93]), jnp.array([0.8, 0.6, 1.0]), jnp.zeros(()), jnp.array([3.0, 4.0])
    force = jax.jit(lambda *args: (ready.force(*args), own.force(*args)))
    one, other = force(q, v, t, multipliers)
    np.testing.assert_allclose(one, other, rtol=1e-14)
    np.testing.assert_allclose(one[2], -FRICTION * PIN * 5.0 * PIN / np.hypot(PIN, REGULARISATION), rtol=1e-12)


def test_a_sleeve_carries_at_its_ends():
    """In space: forces and torques across the axis, the latter as a couple; thrust and torque about the axis count for nothing."""
    body = mbd.RigidBody("body", 1.0, (1.0, 1.0, 1.0))
    guide = mbd.Translational("guide", mbd.ground, body, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    sleeve = mbd.JointFriction("friction", guide, mbd.Coulomb(0.1), length=0.5)
    frames = (mbd.Frame(jnp.zeros(3), jnp.eye(3), jnp.zeros(3), jnp.zeros(3)),) * 2
    local = guide.local(frames)
    reaction = mbd.JointReaction(jnp.array([7.0, 3.0, 4.0]), jnp.array([9.0, 2.0, 1.0]), jnp.zeros(3))
    couple = np.cross([9.0, 2.0, 1.0], [1.0, 0.0, 0.0]) / 0.5
    half = np.array([0.0, 1.5, 2.0])
    expected = np.linalg.norm(half + couple) + np.linalg.norm(half - couple)
    np.testing.assert_allclose(sleeve.load(local, frames, reaction), expected, rtol=1e-14)
    short = mbd.JointFriction("friction", guide, mbd.Coulomb(0.1))
    np.testing.assert_allclose(short.load(local, frames, reaction), 5.0, rtol=1e-14)


def test_a_joint_on_a_penalty_needs_no_multipliers():
    """Its reaction follows from positions and velocities: any integrator may have friction there."""
    held = hinged(lambda hinge, rod: pin(hinge), penalty=mbd.Penalty(1e4, 10.0)).build()
    assert held.multiplier_forces() == ()
    for method in (mbd.Verlet(), mbd.RosenbrockNystrom()):
        method.refuse_multiplier_forces(held)
    # The hinge is torn open by 1 cm sideways while the rod turns.
    force = eqx.filter_jit(held.force)(jnp.array([ARM, 0.01, 0.0]), jnp.array([0.0, ARM, 1.0]), jnp.zeros(()))
    np.testing.assert_allclose(force[2], -FRICTION * PIN * 100.0 * PIN / np.hypot(PIN, REGULARISATION), rtol=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        mbd.RosenbrockNystrom,
        mbd.WMethod,
        mbd.Rodas4,
        mbd.DormandPrince,
        mbd.AdamsPECE,
        mbd.SemiExplicit,
        mbd.Theta,
        mbd.Verlet,
        mbd.ExplicitNystrom,
    ],
)
def test_others_refuse_by_name(planar, method):
    integrator = method(0.5, 0.8) if method is mbd.SemiExplicit else method()
    with pytest.raises(
        ValueError, match=rf"(?s)^{method.__name__} .*force 'pin' \(by the reaction of joint 'hinge'\).*mbd.HHT\(\) or mbd.BDF"
    ):
        mbd.simulate(planar, 1.0, integrator=integrator, step=1e-3)


def test_parameters_and_errors(annotations_unchecked):
    model = hinged(lambda hinge, rod: pin(hinge))
    system = model.build()
    assert {"pin.radius", "pin.kinetic"} <= set(system.parameter_names())
    assert system.set({"pin.radius": 0.2}).get("pin.radius") == 0.2
    rod = mbd.PlanarBody("rod", MASS, INERTIA, position=(ARM, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0.0, 0.0))
    guide = mbd.Translational("guide", mbd.ground, rod, (0.0, 0.0), (1.0, 0.0))
    law = mbd.Coulomb(0.1)
    with pytest.raises(ValueError, match="'pin': joint 'hinge' needs the radius"):
        mbd.JointFriction("pin", hinge, law)
    with pytest.raises(ValueError, match="'rail': joint 'guide' does not turn: leave radius out"):
        mbd.JointFriction("rail", guide, law, 0.1)
    with pytest.raises(ValueError, match="'pin': give a joint of the kind Revolute, Translational, Cylindrical"):
        mbd.JointFriction("pin", mbd.Fixed("weld", mbd.ground, rod), law)
    with pytest.raises(ValueError, match="'pin': friction must be a law of dry friction"):
        mbd.JointFriction("pin", hinge, 0.1, 0.02)
    with pytest.raises(ValueError, match="'pin' was made with another joint of the name 'hinge'"):
        mbd.Model([rod], [mbd.Translational("hinge", mbd.ground, rod, (0.0, 0.0), (1.0, 0.0))], [pin(hinge)])
    law = mbd.ForceFunction("law", mbd.ground, rod, own_law, reactions=("hinje",))
    with pytest.raises(ValueError, match=r"'law' depends on the reaction of an unknown joint 'hinje'. Did you mean 'hinge'"):
        mbd.Model([rod], [hinge], [law])
    with pytest.raises(ValueError, match="'law': expected a joint or a joint's name"):
        mbd.ForceFunction("law", mbd.ground, rod, own_law, reactions=3)
    with pytest.raises(ValueError, match="'law': a force that depends on reactions cannot be of family B"):
        mbd.ForceFunction("law", mbd.ground, rod, own_law, reactions=hinge, stiff=True)


def test_reactions_that_are_not_unique_are_mentioned():
    rod = mbd.PlanarBody("rod", MASS, INERTIA, position=(ARM, 0.0))
    hinge, twin = (mbd.Revolute(name, mbd.ground, rod, (0.0, 0.0)) for name in ("hinge", "twin"))
    with pytest.warns(UserWarning, match="reactions of the joints in that loop are not unique; through force 'pin' the motion depends on"):
        mbd.Model([rod], [hinge, twin], [mbd.Gravity((0.0, -GRAVITY)), pin(hinge)]).build()


def test_bdf_takes_its_stabilised_form(planar):
    """Unless index 3 is asked for, or neither velocities are controlled nor does a force depend on multipliers."""
    free = hinged(lambda hinge, rod: pin(hinge), penalty=mbd.Penalty(1e4, 10.0)).build()
    assert mbd.BDF().suited(planar).formulation.stabilized
    assert mbd.BDF().suited(free).formulation.stabilized
    for classical in (mbd.BDF(velocity_error=False), mbd.BDF(order=2)):
        assert classical.suited(planar).formulation.stabilized
        assert not classical.suited(free).formulation.stabilized
    assert not mbd.BDF(index=3).suited(planar).formulation.stabilized
    with pytest.warns(UserWarning, match="multipliers of BDF with index=3 are inaccurate .* force 'pin'"):
        mbd.BDF(index=3).check(planar)
