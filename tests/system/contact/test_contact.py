"""Contact laws and pairs against their closed forms."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

ROUNDING = 1e-9
"""relative, of depths that are differences of lengths some thousand times larger, in float64"""

# --- the linear law -----------------------------------------------------------------------------------------------------------------------


def impact(zeta: float) -> SimpleNamespace:
    """Depth, rate and force of a unit mass that meets a unit spring at unit speed, until it is off."""
    law = eqx.filter_jit(mbd.LinearContact(1.0, 2 * zeta).force)
    off = lambda t, y: y[0] if t > 0.1 else 1.0  # noqa: E731
    off.terminal, off.direction = True, -1
    run = solve_ivp(lambda t, y: [y[1], -float(law(y[0], y[1]))], (0.0, 9.0), [0.0, 1.0], events=off, rtol=1e-8, atol=1e-10)
    return SimpleNamespace(t=run.t, rate=run.y[1], force=np.array([float(law(*y)) for y in run.y.T]))


def restitution(zeta: float) -> float:
    """In closed form: the spring alone, of twice the stiffness, until c d' = k d; then spring and dashpot until they let go."""
    angle = np.arctan(2 * np.sqrt(2) * zeta)
    depth, rate = np.sin(angle) / np.sqrt(2), np.cos(angle)
    frequency = np.sqrt(1 - zeta**2)
    root = -zeta + 1j * frequency
    amplitude = depth - 1j * (rate + zeta * depth) / frequency  # d = Re(amplitude exp(root t))
    force = amplitude * (1 + 2 * zeta * root)
    end = (np.pi / 2 - np.angle(force)) / frequency
    return -float(np.real(amplitude * root * np.exp(root * end)))


def test_an_elastic_impact_is_half_a_sine():
    """Duration pi sqrt(m / k), peak force v sqrt(k m)."""
    run = impact(0.0)
    np.testing.assert_allclose(run.t[-1], np.pi, rtol=1e-6)
    np.testing.assert_allclose(run.force, np.sin(run.t), atol=1e-6)
    np.testing.assert_allclose(run.rate[-1], -1.0, rtol=1e-6)


def test_a_dashpot_takes_its_share_and_never_jumps_or_pulls():
    for zeta in (0.03, 0.3):
        run = impact(zeta)
        np.testing.assert_allclose(-run.rate[-1], restitution(zeta), rtol=1e-5)
        assert run.force[0] == 0.0
        assert np.min(run.force) >= 0.0


def test_restitution_is_that_of_the_unbounded_dashpot_up_to_second_order():
    """Schwager and Pöschel (2007); the bound at touch-down gives back 2 zeta^2."""
    for zeta in (0.01, 0.02):
        frequency = np.sqrt(1 - zeta**2)
        unbounded = np.exp(-zeta / frequency * (np.pi - np.arctan(2 * zeta * frequency / (1 - 2 * zeta**2))))
        np.testing.assert_allclose(restitution(zeta) - unbounded, 2 * zeta**2, rtol=0.2)


def test_the_law_and_its_derivatives_are_finite_at_any_depth():
    law = jax.tree.map(jnp.asarray, mbd.LinearContact(2e9, 5e3))
    depth, rate = (u.ravel() for u in np.meshgrid([-1e9, -1e-6, 0.0, 1e-300, 1e-12, 1e-6, 1.0, 1e9], [-1e3, -1e-12, 0.0, 1e-12, 1e3]))

    @eqx.filter_jit
    def evaluate(law, depth, rate):
        output = lambda law, d, r: jnp.stack([law.force(d, r), law.energy(d)])  # noqa: E731
        at = lambda d, r: (output(law, d, r), jax.jacfwd(output, (0, 1, 2))(law, d, r), jax.jacrev(output, (0, 1, 2))(law, d, r))  # noqa: E731
        return jax.vmap(at)(depth, rate)

    values, forward, reverse = evaluate(law, depth, rate)
    for one, other in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
        assert np.all(np.isfinite(one))
        np.testing.assert_allclose(one, other, rtol=1e-12)
    elastic = 2e9 * np.maximum(depth, 0.0)
    np.testing.assert_allclose(values[:, 0], np.clip(elastic + 5e3 * rate, 0.0, 2 * elastic), rtol=1e-12)
    np.testing.assert_allclose(values[:, 1], 0.5 * elastic * np.maximum(depth, 0.0), rtol=1e-12)


# --- pairs --------------------------------------------------------------------------------------------------------------------------------

LAW, FRICTION = mbd.LinearContact(2e5, 40.0), mbd.LuGre(1e3, 0.3, 0.2, 0.1, viscous=0.02)
TILT = 0.4
NORMAL = np.array([-np.sin(TILT), np.cos(TILT)])


def planar_body(name, position, angle=0.2):
    return mbd.PlanarBody(name, 1.5, 0.02, position, angle)


@pytest.fixture(scope="module")
def pairs() -> SimpleNamespace:
    """Discs on a tilted moving line, on a level ground, and side by side; the bodies' centres are not the discs'."""
    bodies = [planar_body(name, at) for name, at in (("ball", (0.1, 0.5)), ("slope", (0.3, -0.2)), ("puck", (2.0, 0.1)))]
    bodies += [planar_body("left", (4.0, 0.0)), planar_body("right", (4.5, 0.3))]
    ball, slope, puck, left, right = bodies
    forces = [
        mbd.DiscLine("on slope", ball, slope, (0.0, 0.4), 0.3, (0.1, 0.1), NORMAL, LAW, FRICTION),
        mbd.DiscLine("on ground", puck, mbd.ground, (2.0, 0.12), 0.1, (0.0, 0.0), (0.0, 2.0), mbd.LinearContact(1e5, 10.0), FRICTION),
        mbd.DiscDisc("side by side", left, right, (4.1, 0.05), 0.2, (4.4, 0.2), 0.15, LAW, FRICTION, allow_overlap=True),
        mbd.DiscDisc("smooth", puck, right, (2.0, 0.1), 0.1, (4.4, 0.2), 0.1, LAW),
    ]

    @eqx.filter_jit
    def evaluate(system, q, v, x):
        """(forces, rates of the bristles, energy)"""
        system, t = system.prepare(), jnp.zeros(())
        return system.force(q, v, t, x), system.state_rate(x, q, v, t), system.potential_energy(q, t)

    return SimpleNamespace(system=mbd.Model(bodies, forces=forces).build(), evaluate=evaluate)


def moved(system, **shifts):
    q = np.asarray(system.q0).copy()
    for name, shift in shifts.items():
        q[system.body_slices()[name][2]] += shift
    return q


SLOPE_SHIFT, BALL_SHIFT = np.array([0.05, 0.02, 0.1]), np.array([0.095, -0.026, -0.3])
"""a slope that has turned by 0.1 rad; the ball overlaps it by some millimetres"""


def by_hand(system, q, v, z):
    """The contact of ball and slope in plain numpy: (depth, force on the ball, contact point, z')."""
    turn = lambda angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])  # noqa: E731
    spin = lambda w, arm: w * np.array([-arm[1], arm[0]])  # noqa: E731
    (ball, slope), (vb, vs) = ([u[system.body_slices()[name][2]] for name in ("ball", "slope")] for u in (q, v))
    centre = ball[:2] + turn(ball[2] - 0.2) @ (np.array([0.0, 0.4]) - [0.1, 0.5])
    foot = slope[:2] + turn(slope[2] - 0.2) @ (np.array([0.1, 0.1]) - [0.3, -0.2])
    normal = turn(slope[2] - 0.2) @ NORMAL
    tangent = np.array([-normal[1], normal[0]])
    point = centre - 0.3 * normal
    relative = vb[:2] + spin(vb[2], point - ball[:2]) - vs[:2] - spin(vs[2], point - slope[:2])
    depth, rate, slip = 0.3 - normal @ (centre - foot), -normal @ relative, tangent @ relative
    elastic = 2e5 * max(depth, 0.0)
    push = elastic + np.clip(40.0 * rate, -elastic, elastic)
    limit = 0.2 + 0.1 * np.exp(-((slip / 0.1) ** 2))
    return depth, push * normal - push * (1e3 * z + 0.02 * slip) * tangent, point, slip - 1e3 * abs(slip) / limit * z


@pytest.mark.parametrize("speed", [0.0, 0.01, 0.3, 2.0])
def test_a_disc_on_a_moving_line_is_pushed_as_by_hand(pairs, speed):
    system = pairs.system
    q = moved(system, ball=BALL_SHIFT, slope=SLOPE_SHIFT)
    v = speed * np.random.default_rng(5).normal(size=q.shape)
    force, rate, energy = (np.asarray(u) for u in pairs.evaluate(system, q, v, np.array([1e-4, 0.0, -5e-5])))
    depth, expected, point, z_rate = by_hand(system, q, v, 1e-4)
    assert 1e-3 < depth < 1e-2
    near = {"rtol": ROUNDING, "atol": ROUNDING * np.abs(expected).max()}
    for name, sign in (("ball", 1), ("slope", -1)):
        where = system.body_slices()[name][2]
        arm = point - q[where][:2]
        np.testing.assert_allclose(force[where][:2], sign * expected, **near)
        np.testing.assert_allclose(force[where][2], sign * (arm[0] * expected[1] - arm[1] * expected[0]), **near)
    np.testing.assert_allclose(rate[0], z_rate, rtol=ROUNDING)
    # "side by side" overlaps too, the others are open.
    np.testing.assert_allclose(energy, 0.5 * 2e5 * (depth**2 + (0.35 - np.hypot(0.3, 0.15)) ** 2), rtol=ROUNDING)


def test_discs_push_each_other_apart_along_their_centres(pairs):
    system = pairs.system
    force = np.asarray(pairs.evaluate(system, moved(system), np.zeros(15), np.array([0.0, 0.0, 1e-4]))[0])
    left, right = (force[system.body_slices()[name][2]] for name in ("left", "right"))
    away = np.array([-0.3, -0.15]) / np.hypot(0.3, 0.15)
    depth = 0.35 - np.hypot(0.3, 0.15)
    expected = 2e5 * depth * (away - 1e3 * 1e-4 * np.array([-away[1], away[0]]))
    np.testing.assert_allclose(left[:2], expected, rtol=ROUNDING)
    np.testing.assert_allclose(right[:2], -expected, rtol=ROUNDING)
    # Action is reaction: no moment about the origin is left.
    moment = left[2] + 4.0 * left[1] + right[2] + 4.5 * right[1] - 0.3 * right[0]
    np.testing.assert_allclose(moment, 0.0, atol=ROUNDING * np.abs(force).max())


def test_open_contacts_do_nothing(pairs):
    """In whatever motion; their bristles fade."""
    system = pairs.system
    force, rate, energy = pairs.evaluate(system, moved(system, right=np.array([0.3, 0.0, 0.0])), np.ones(15), np.full(3, 1e-4))
    assert np.all(force == 0.0)
    assert energy == 0.0
    assert np.all(rate < 0.0)


def test_contacts_of_one_kind_are_stacked_and_their_numbers_have_names(pairs):
    system = pairs.system
    assert [group.names for group in system.force_groups] == [("on slope", "on ground"), ("side by side",), ("smooth",)]
    for name, value in (("law.stiffness", 1e5), ("stiffness", 1e5), ("friction.static", 0.3), ("static", 0.3), ("radius", 0.1)):
        assert float(system.get(f"on ground.{name}")) == value
    with pytest.raises(ValueError, match=r"law.stiffness of force 'on ground' must be positive: got -1"):
        system.set({"on ground.law.stiffness": -1.0})
    changed = system.set({"on ground.law.stiffness": 3e5, "on ground.radius": 0.125})
    force = pairs.evaluate(changed, moved(system), np.zeros(15), np.zeros(3))[0]
    np.testing.assert_allclose(force[system.body_slices()["puck"][2]], [0.0, 3e5 * 0.005, 0.0], rtol=1e-6, atol=1e-9)


def test_friction_does_not_act_while_an_adhesive_law_pulls():
    """A disc that leaves the ground at 1 m/s and slides at 2 m/s: k d - c v = 50 N - 80 N pulls it back, and nothing brakes it."""
    disc = mbd.PlanarBody("disc", 1.0, 0.1, (0.0, 0.0995), velocity=(2.0, 1.0))
    law = mbd.LinearContact(1e5, 80.0, adhesive=True)
    floor = mbd.DiscLine("floor", disc, mbd.ground, (0.0, 0.0995), 0.1, (0.0, 0.0), (0.0, 1.0), law, mbd.Coulomb(0.3))
    system = mbd.Model([disc], forces=[floor]).build()
    force = eqx.filter_jit(lambda s: s.force(s.q0, s.v0, 0.0))(system)
    np.testing.assert_allclose(force, [0.0, -30.0, 0.0], rtol=1e-9, atol=1e-12)


# --- derivatives of pairs ----------------------------------------------------------------------------------------------------------------

PAIRS = {
    "line": mbd.DiscLine("line", "a", "b", (0.0, 0.3), 0.3, (0.1, 0.0), (0.0, 1.0), LAW, FRICTION),
    "disc": mbd.DiscDisc("disc", "a", "b", (0.0, 0.3), 0.2, (0.0, 0.0), 0.1, LAW, FRICTION),
}


@eqx.filter_jit
def outputs(pair, q, v, x):
    """Wrench, rate of the bristle and energy of a pair whose bodies have the coordinates q (2, 3) and rates v."""
    body, start = planar_body("body", (0.0, 0.0)), displaced(0.0, 0.0)
    frames = lambda q, v: tuple(body.frame(q[i], v[i]) for i in range(2))  # noqa: E731
    local = pair.local(frames(start, jnp.zeros((2, 3))))
    wrench = pair.wrench(local, frames(q, v), jnp.zeros(0), jnp.zeros(()), x)
    rate = pair.state_rate(local, frames(q, v), jnp.zeros(0), jnp.zeros(()), x)
    energy = pair.potential(local, frames(q, v), jnp.zeros(0))
    return jnp.concatenate([wrench.force.ravel(), wrench.torque.ravel(), rate, energy[None]])


def displaced(x, y):
    """The bodies of a pair where its shapes touch (up to rounding), the first one displaced by (x, y)."""
    return np.array([[0.1 + x, 0.4 + y, 0.2], [0.0, -0.1, -0.1]])


PLACES = {
    "touching": displaced(0.0, 0.0),
    "overlap": displaced(0.01, -0.012),
    "coincident": displaced(0.0, -0.3),
    "gap": displaced(0.0, 0.1),
}


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_are_finite_at_zero_gap_and_at_rest(name):
    """By motion and by all parameters, forward and reverse; also under vmap."""
    pair = jax.tree.map(jnp.asarray, PAIRS[name])
    weights = jnp.cos(jnp.arange(14.0))

    @eqx.filter_jit
    def derivatives(pair, q, v, x):
        def at(q, v):
            forward = jax.jacfwd(outputs, (0, 1, 2, 3))(pair, q, v, x)
            return forward, jax.grad(lambda *args: weights @ outputs(*args), (0, 1, 2, 3))(pair, q, v, x)

        return jax.vmap(at)(q, v)

    q = np.stack([*PLACES.values(), PLACES["overlap"]])
    v = np.zeros_like(q)
    v[-1] = [[0.3, -0.2, 1.0], [0.1, 0.1, -2.0]]
    for x in (0.0, 1e-4):
        forward, reverse = derivatives(pair, q, v, jnp.full(1, x))
        for one, other in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
            assert np.all(np.isfinite(one))
            expected = np.tensordot(one, weights, (1, 0))
            np.testing.assert_allclose(other, expected, rtol=1e-9, atol=1e-9 * np.abs(one).max())


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_in_contact_are_those_of_finite_differences(name):
    rng = np.random.default_rng(6)
    pair, v = jax.tree.map(jnp.asarray, PAIRS[name]), jnp.array([[0.3, -0.2, 1.0], [0.1, 0.1, -2.0]])
    leaves, structure = jax.tree.flatten((pair, jnp.asarray(PLACES["overlap"]), v, jnp.full(1, 1e-4)))
    tangents = tuple(1e-2 * rng.normal(size=leaf.shape) * np.maximum(np.abs(leaf), 1e-4) for leaf in leaves)
    _, exact = jax.jvp(lambda *leaves: outputs(*jax.tree.unflatten(structure, leaves)), tuple(leaves), tangents)
    step = lambda s: outputs(*jax.tree.unflatten(structure, [u + s * d for u, d in zip(leaves, tangents, strict=True)]))  # noqa: E731
    difference = (step(1e-4) - step(-1e-4)) / 2e-4
    np.testing.assert_allclose(exact, difference, rtol=1e-5, atol=1e-6 * np.abs(difference).max())


# --- in motion ----------------------------------------------------------------------------------------------------------------------------


def test_a_sliding_disc_begins_to_roll():
    """Sliding under mu g = 3 m/s^2 gives way to rolling at two thirds of the speed, after 0.2 / 3 s."""
    disc = mbd.PlanarBody("disc", 2.0, 0.5 * 2.0 * 0.1**2, (5.0, 0.1 - 2e-4), velocity=(0.6, 0.0))
    law, friction = mbd.LinearContact(1e5, 200.0), mbd.LuGre(1e4, 0.3)
    alley = mbd.DiscLine("alley", disc, mbd.ground, disc.position, 0.1, (0.0, 0.0), (0.0, 1.0), law, friction)
    system = mbd.Model([disc], forces=[alley, mbd.Gravity((0.0, -10.0))]).build().prepare()

    @jax.jit
    def rates(t, y):
        q, v, x = y[:3], y[3:6], y[6:]
        return jnp.concatenate([v, system.force(q, v, t, x) / jnp.array([2.0, 2.0, 0.01]), system.state_rate(x, q, v, t)])

    start = np.concatenate([system.q0, system.v0, system.x0])
    run = solve_ivp(lambda t, y: np.asarray(rates(t, y)), (0.0, 0.15), start, method="LSODA", rtol=1e-6, atol=1e-9)
    t, speed, turning, z = run.t, run.y[3], run.y[5], run.y[6]
    # The bristles take 0.03 mm to deflect, and swing a little when they stick.
    np.testing.assert_allclose(speed[t < 0.06], 0.6 - 3.0 * t[t < 0.06], atol=2e-3)
    np.testing.assert_allclose(z[(t > 0.01) & (t < 0.06)], -3e-5, rtol=1e-3)  # along -x, the normal turned by +90 degrees
    np.testing.assert_allclose(speed[-1], 0.4, atol=5e-3)
    np.testing.assert_allclose(turning[-1], -4.0, atol=0.1)
    np.testing.assert_allclose(run.y[1], 0.1 - 2e-4, atol=1e-9)


def test_a_body_may_start_behind_a_face_if_asked_for():
    floor = disc_on_ground(centre=(0.0, -0.01), allow_overlap=True)
    system = mbd.Model([planar_body("ball", (0.0, -0.01))], forces=[floor]).build()
    assert system.force_groups[0].names == ("floor",)


# --- bad input ----------------------------------------------------------------------------------------------------------------------------


def disc_on_ground(**changes):
    values = {"centre": (0.0, 1.0), "radius": 0.1, "point": (0.0, 0.0), "normal": (0.0, 1.0), "law": LAW}
    return mbd.DiscLine("floor", "ball", mbd.ground, **(values | changes))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.LinearContact(-1.0), "stiffness of the LinearContact law must be positive: got -1"),
        (lambda: mbd.LinearContact(0.0), "stiffness of the LinearContact law must be positive"),
        (lambda: mbd.LinearContact(1e5, -2.0), "damping of the LinearContact law must not be negative"),
        (lambda: disc_on_ground(radius=0.0), "radius of force 'floor' must be positive"),
        (lambda: disc_on_ground(normal=(0.0, 0.0)), "normal of force 'floor' has zero length"),
        (lambda: disc_on_ground(normal=None), "normal of force 'floor': expected an array of shape"),
        (lambda: disc_on_ground(centre=(0.0, 1.0, 0.0)), "centre of force 'floor': expected an array of shape"),
        (lambda: disc_on_ground(law=2e5), "force 'floor': law must be a contact law such as mbd.LinearContact"),
        (lambda: disc_on_ground(friction=0.3), "force 'floor': friction must be a friction law such as mbd.LuGre"),
        (
            lambda: mbd.Model([planar_body("ball", (0.0, 1.0))], forces=[disc_on_ground(normal=(0.0, -1.0))]).build(),
            "force 'floor': 'ball' and 'ground' overlap by 1.1 m at the start.*turn it round",
        ),
        (
            lambda: mbd.Model([mbd.RigidBody("ball", 1.0, (1.0, 1.0, 1.0))], forces=[disc_on_ground()]).build(),
            "force 'floor': a DiscLine contact has no meaning in a spatial model",
        ),
    ],
)
@pytest.mark.usefixtures("annotations_unchecked")
def test_bad_input_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
