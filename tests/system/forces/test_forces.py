"""Every force element against its closed form, Newton's third law, and the slope of its energy."""

from types import SimpleNamespace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

from ..numpy_mechanics import hat, rotation_from_quaternion, torque_of_moment, twice_rate, unit

ROUNDING = 1e-9
"""of loads of up to 1e4 N through some ten products in float64"""


def actuator(length, rate, t):
    return 3.0 * length - 0.5 * rate + 2.0 * jnp.sin(t)


def magnet(a, b, t):
    d = b.position - a.position
    return -5.0 * d + 2.0 * (b.velocity - a.velocity), 0.3 * jnp.cos(t) * (b.angular_velocity - a.angular_velocity)


def tug(t):
    return jnp.array([2.0 * t, -1.0, jnp.cos(t)])


def drag(frame, t):
    return -2.0 * t * jnp.sqrt(frame.velocity @ frame.velocity) * frame.velocity


def rudder(frame, t, gain=0.4):
    """A default of its own is no argument."""
    return gain * frame.rotation.T @ frame.position - jnp.cross(frame.angular_velocity, frame.velocity)


RNG = np.random.default_rng(3)
BUSHING_STIFFNESS = (lambda R: R @ R.T)(RNG.normal(size=(6, 6)) * [[10.0], [10.0], [10.0], [2.0], [2.0], [2.0]])
BUSHING_DAMPING = (lambda R: R @ R.T)(RNG.normal(size=(6, 6)))
DIAGONAL = np.array([100.0, 200.0, 300.0, 4.0, 5.0, 6.0])
P1, P2, POINT, AXIS = np.array([0.3, -0.2, 0.1]), np.array([0.9, 0.4, -0.3]), np.array([0.5, 0.1, 0.2]), unit([1, 2, -1])
PAIRS = {
    "spring": lambda a, b: mbd.SpringDamper("spring", a, b, P1, P2, 150.0, 4.0, 0.6),
    "actuated": lambda a, b: mbd.SpringDamper("actuated", a, b, P1, P2, 150.0, 4.0, actuator=actuator),
    "torsion": lambda a, b: mbd.TorsionSpringDamper("torsion", a, b, AXIS, 7.0, 0.4, 0.5, actuator),
    "bushing": lambda a, b: mbd.Bushing("bushing", a, b, POINT, BUSHING_STIFFNESS, BUSHING_DAMPING),
    "diagonal": lambda a, b: mbd.Bushing("diagonal", a, b, POINT, DIAGONAL),
    "magnet": lambda a, b: mbd.ForceFunction("magnet", a, b, magnet),
}
PENALTY = mbd.Penalty(1e4, 30.0, 2e3, 5.0)
SINGLES = {
    "push": lambda b: mbd.PointForce("push", b, P1, (1.0, -2.0, 3.0)),
    "push along": lambda b: mbd.PointForce("push along", b, P1, (1.0, -2.0, 3.0), axes="body"),
    "tug": lambda b: mbd.PointForce("tug", b, P1, tug),
    "twist": lambda b: mbd.Torque("twist", b, (0.3, 0.2, -0.1)),
    "twist along": lambda b: mbd.Torque("twist along", b, (0.3, 0.2, -0.1), axes="body"),
    "crank": lambda b: mbd.Torque("crank", b, tug, axes="body"),
    "drag": lambda b: mbd.PointForce("drag", b, P1, drag),
    "rudder": lambda b: mbd.Torque("rudder", b, rudder, axes="body"),
}
TIME = 0.8


@pytest.fixture(scope="module")
def loads() -> SimpleNamespace:
    """Forces at some configuration that is not the initial one, with every body moving."""
    rng = np.random.default_rng(8)
    bodies, forces, joints = [], [], []

    def body(name):
        made = mbd.RigidBody(name, 1.3, (0.2, 0.3, 0.4), rng.normal(size=3), unit(rng.normal(size=4)))
        bodies.append(made)
        return made

    for name, make in PAIRS.items():
        forces.append(make(body(f"{name} a"), body(f"{name} b")))
    for name, make in SINGLES.items():
        forces.append(make(body(f"{name} b")))
    joints.append(mbd.Revolute("penalty", body("penalty a"), body("penalty b"), POINT, AXIS, penalty=PENALTY))
    system = mbd.Model(bodies, joints, forces).build()
    q0 = np.asarray(system.q0)
    q, v = q0.copy(), np.zeros_like(q0)
    for _, _, where in system.body_slices().values():
        turn = Rotation.from_rotvec(rng.uniform(-0.6, 0.6, 3)) * Rotation.from_quat(q0[where][[4, 5, 6, 3]])
        x, y, z, w = turn.as_quat()
        spin = rng.uniform(-1.0, 1.0, 3)
        p = np.array([w, x, y, z])
        rate = 0.5 * np.concatenate([[-spin @ p[1:]], p[0] * spin + np.cross(spin, p[1:])])
        q[where] = [*(q0[where][:3] + rng.uniform(-0.3, 0.3, 3)), *p]
        v[where] = [*rng.uniform(-1.0, 1.0, 3), *rate]

    @eqx.filter_jit
    def evaluate(system, q, v, t):
        total = system.force(q, v, t) + system.stiff_force(q, v, t)
        still = system.force(q, jnp.zeros_like(v), t) + system.stiff_force(q, jnp.zeros_like(v), t)
        return total, still, jax.grad(system.potential_energy)(q, t), system.potential_energy(q, t)

    prepared = system.prepare()
    total, still, slope, energy = (np.asarray(u) for u in evaluate(prepared, q, v, TIME))
    found = SimpleNamespace(system=system, q=q, v=v, still=still, slope=slope, energy=float(energy), bodies={})
    for name, (_, _, where) in system.body_slices().items():
        p, rate = q[where][3:], v[where][3:]
        A, A0 = rotation_from_quaternion(p), rotation_from_quaternion(q0[where][3:])
        spin = twice_rate(p, rate)
        gyroscopic = np.cross(spin, A @ np.diag([0.2, 0.3, 0.4]) @ A.T @ spin)
        found.bodies[name] = SimpleNamespace(
            r=q[where][:3],
            A=A,
            turn=A @ A0.T,
            r0=q0[where][:3],
            velocity=v[where][:3],
            spin=spin,
            force=total[where][:3],
            torque=0.5 * _ground_rates(p) @ total[where][3:] + gyroscopic,
        )
    return found


def _ground_rates(p) -> np.ndarray:
    """The 3 x 4 matrix with angular velocity = 2 E p'; a torque T is the generalised force 2 E^T T, and E E^T = 1."""
    return np.concatenate([-p[1:, None], p[0] * np.eye(3) + hat(p[1:])], axis=1)


def point(body, p) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity of a body's point that was at p at the start."""
    arm = body.turn @ (p - body.r0)
    return body.r + arm, body.velocity + np.cross(body.spin, arm)


def pair(loads, name):
    return loads.bodies[f"{name} a"], loads.bodies[f"{name} b"]


@pytest.mark.parametrize("name", [*PAIRS, "penalty"])
def test_action_is_reaction(loads, name):
    a, b = pair(loads, name)
    np.testing.assert_allclose(a.force + b.force, 0, atol=ROUNDING)
    moment = a.torque + np.cross(a.r, a.force) + b.torque + np.cross(b.r, b.force)
    np.testing.assert_allclose(moment, 0, atol=ROUNDING)
    assert np.linalg.norm(b.force) + np.linalg.norm(b.torque) > 0.1


@pytest.mark.parametrize("name", ["spring", "actuated"])
def test_a_spring_damper_pulls_by_its_law(loads, name):
    a, b = pair(loads, name)
    (p1, v1), (p2, v2) = point(a, P1), point(b, P2)
    length = np.linalg.norm(p2 - p1)
    toward = (p2 - p1) / length
    rate = toward @ (v2 - v1)
    free = 0.6 if name == "spring" else np.linalg.norm(P2 - P1)
    pull = 150.0 * (length - free) + 4.0 * rate + (0.0 if name == "spring" else float(actuator(length, rate, TIME)))
    np.testing.assert_allclose(b.force, -pull * toward, atol=ROUNDING)
    np.testing.assert_allclose(b.torque, np.cross(p2 - b.r, -pull * toward), atol=ROUNDING)


def test_a_torsion_spring_turns_by_its_law(loads):
    a, b = pair(loads, "torsion")
    axis = a.turn @ AXIS
    # The angle of a direction across the axis; any such direction gives it where the axes of a and b are aligned,
    # here they are not, and the one that the element chose is known only up to second order in the misalignment.
    turn = a.turn.T @ b.turn
    across = np.cross(AXIS, [0.0, 0.0, 1.0])
    angle = np.arctan2(np.cross(AXIS, unit(across)) @ turn @ unit(across), unit(across) @ turn @ unit(across))
    rate = axis @ (b.spin - a.spin)
    resistance = 7.0 * (angle - 0.5) + 0.4 * rate + float(actuator(angle, rate, TIME))
    np.testing.assert_allclose(b.force, 0, atol=ROUNDING)
    np.testing.assert_allclose(np.cross(b.torque, axis), 0, atol=ROUNDING)
    misaligned = np.linalg.norm(np.cross(AXIS, turn @ AXIS))
    np.testing.assert_allclose(b.torque @ axis, -resistance, atol=10.0 * misaligned**2)


@pytest.mark.parametrize("name", ["bushing", "diagonal"])
def test_a_bushing_yields_by_its_matrices(loads, name):
    a, b = pair(loads, name)
    stiffness, damping = (BUSHING_STIFFNESS, BUSHING_DAMPING) if name == "bushing" else (np.diag(DIAGONAL), np.zeros((6, 6)))
    (p1, v1), (p2, v2) = point(a, POINT), point(b, POINT)
    axes = a.turn
    shift = axes.T @ (p2 - p1)
    shift_rate = axes.T @ (v2 - v1 - np.cross(a.spin, p2 - p1))
    turn = Rotation.from_matrix(axes.T @ b.turn).as_rotvec()
    load = -stiffness @ [*shift, *turn]
    load[3:] = torque_of_moment(turn, load[3:])
    load -= damping @ [*shift_rate, *(axes.T @ (b.spin - a.spin))]
    np.testing.assert_allclose(b.force, axes @ load[:3], atol=ROUNDING)
    np.testing.assert_allclose(b.torque, axes @ load[3:] + np.cross(p2 - b.r, axes @ load[:3]), atol=ROUNDING)


def test_a_users_force_acts_at_the_second_centre_of_mass(loads):
    a, b = pair(loads, "magnet")
    np.testing.assert_allclose(b.force, -5.0 * (b.r - a.r) + 2.0 * (b.velocity - a.velocity), atol=ROUNDING)
    np.testing.assert_allclose(b.torque, 0.3 * np.cos(TIME) * (b.spin - a.spin), atol=ROUNDING)


def test_point_forces_and_torques_keep_to_the_axes_they_are_given_in(loads):
    push, twist, now = np.array([1.0, -2.0, 3.0]), np.array([0.3, 0.2, -0.1]), np.array([2 * TIME, -1.0, np.cos(TIME)])
    b = {name: loads.bodies[f"{name} b"] for name in SINGLES}
    expected = {
        "push": (push, 0.0),
        "push along": (b["push along"].A @ push, 0.0),
        "tug": (now, 0.0),
        "twist": (np.zeros(3), twist),
        "twist along": (np.zeros(3), b["twist along"].A @ twist),
        "crank": (np.zeros(3), b["crank"].A @ now),
        "drag": (-2.0 * TIME * np.linalg.norm(b["drag"].velocity) * b["drag"].velocity, 0.0),
        "rudder": (np.zeros(3), 0.4 * b["rudder"].r - b["rudder"].A @ np.cross(b["rudder"].spin, b["rudder"].velocity)),
    }
    for name, (force, torque) in expected.items():
        lever = point(b[name], P1)[0] - b[name].r
        np.testing.assert_allclose(b[name].force, force, atol=ROUNDING, err_msg=name)
        np.testing.assert_allclose(b[name].torque, torque + np.cross(lever, force), atol=ROUNDING, err_msg=name)


@pytest.mark.parametrize("name", ["spring", "penalty", "bushing", "diagonal"])
def test_a_spring_at_rest_pulls_down_the_slope_of_its_energy(loads, name):
    """Both parts of the generalised force that Euler parameters admit: across p, not along it."""
    for suffix in ("a", "b"):
        where = loads.system.body_slices()[f"{name} {suffix}"][2]
        E = _ground_rates(loads.q[where][3:])
        force, slope = loads.still[where], loads.slope[where]
        np.testing.assert_allclose(force[:3], -slope[:3], atol=ROUNDING)
        np.testing.assert_allclose(E @ force[3:], -E @ slope[3:], atol=ROUNDING)


def test_stored_energy_is_half_stiffness_times_stretch_squared(loads):
    """Springs, torsion springs, bushings and penalties add up; damping, actuators and loads store nothing."""
    total = 0.0
    for name, free in (("spring", 0.6), ("actuated", np.linalg.norm(P2 - P1))):
        a, b = pair(loads, name)
        total += 0.5 * 150.0 * (np.linalg.norm(point(b, P2)[0] - point(a, P1)[0]) - free) ** 2
    for name, stiffness in (("bushing", BUSHING_STIFFNESS), ("diagonal", np.diag(DIAGONAL))):
        a, b = pair(loads, name)
        shift = a.turn.T @ (point(b, POINT)[0] - point(a, POINT)[0])
        deflection = np.array([*shift, *Rotation.from_matrix(a.turn.T @ b.turn).as_rotvec()])
        total += 0.5 * deflection @ stiffness @ deflection
    a, b = pair(loads, "penalty")
    offset = point(b, POINT)[0] - point(a, POINT)[0]
    tilt = np.cross(a.turn @ AXIS, b.turn @ AXIS)
    total += 0.5 * 1e4 * offset @ offset + 0.5 * 2e3 * tilt @ tilt
    a, b = pair(loads, "torsion")
    resistance = -(b.torque @ (a.turn @ AXIS))
    rate = (a.turn @ AXIS) @ (b.spin - a.spin)
    # resistance = 7 (angle - 0.5) + 0.4 rate + 3 angle - 0.5 rate + 2 sin t, solved for the angle
    angle = (resistance + 3.5 + 0.1 * rate - 2 * np.sin(TIME)) / 10.0
    total += 0.5 * 7.0 * (angle - 0.5) ** 2
    np.testing.assert_allclose(loads.energy, total, rtol=1e-12)


# --- zero length --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coincident() -> SimpleNamespace:
    """Springs between points that coincide, with and without a free length; forces and all derivatives."""
    bodies = [mbd.PointMass(name, 1.0, (0.3, 0.2, 0.1)) for name in ("soft", "slack", "hung")]
    p = bodies[0].position
    forces = [
        mbd.SpringDamper("no free length", mbd.ground, bodies[0], p, p, 80.0, 2.0, 0.0),
        mbd.SpringDamper("free length", mbd.ground, bodies[1], p, p, 80.0, 2.0, 0.5),
        mbd.SpringDamper("driven", mbd.ground, bodies[2], p, p, 80.0, 2.0, 0.5, lambda length, rate, t: length * rate + t),
    ]
    system = mbd.Model(bodies, forces=forces).build()

    @eqx.filter_jit
    def evaluate(system):
        q, v, t = system.q0, jnp.ones_like(system.q0), jnp.ones(())

        def energy_by(values):
            return system.set(values).potential_energy(q, t)

        def force_by(values):
            return system.set(values).force(q, v, t)

        names = [f"free length.{field}" for field in ("stiffness", "point1", "free_length")]
        values = {name: system.get(name) for name in names}
        return (
            system.force(q, v, t),
            jax.jacfwd(system.force)(q, v, t),
            jax.jacrev(system.force, argnums=1)(q, v, t),
            jax.grad(system.potential_energy)(q, t),
            jax.jacfwd(force_by)(values),
            jax.grad(energy_by)(values),
        )

    return SimpleNamespace(zip=dict(zip(("force", "by_q", "by_v", *"abc"), evaluate(system), strict=True)))


def test_a_spring_of_no_length_has_no_force_and_finite_derivatives(coincident):
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(coincident.zip))
    np.testing.assert_allclose(coincident.zip["force"], 0)


def test_a_spring_without_free_length_is_linear_through_zero(coincident):
    np.testing.assert_allclose(coincident.zip["by_q"][:3, :3], -80.0 * np.eye(3))


# --- in motion ----------------------------------------------------------------------------------------------------------

TRACES = []
LAG, LEVEL = 0.2, 3.0


class Repulsion(eqx.Module):
    """A law with parameters."""

    gain: jax.Array
    reach: float
    along: jax.Array
    """a whole number: the direction that it acts in, no parameter"""

    def __call__(self, a, b, t):
        TRACES.append("repulsion")
        away = (b.position - a.position) * jnp.eye(3)[self.along]
        return self.gain * away * self.reach, jnp.zeros(3)


class Air(eqx.Module):
    """Weight of 2 kg and drag, with the three components that a frame has in a planar model too."""

    drag: jax.Array

    def __call__(self, frame, t):
        return jnp.array([0.0, -2.0 * 9.81, 0.0]) - self.drag * jnp.abs(frame.velocity[1]) * frame.velocity


def lagging(a, b, t, x):
    return jnp.array([x[0], 0.0, 0.0]), jnp.zeros(3)


def lag(a, b, t, x):
    return (LEVEL - x) / LAG


@pytest.fixture(scope="module")
def planar() -> SimpleNamespace:
    bodies = [
        mbd.PointMass("filtered", 2.0, (0.0, 0.0)),
        mbd.PointMass("repelled", 1.0, (0.1, 0.0)),
        mbd.PlanarBody("spun", 1.0, 0.5, (0.0, 1.0)),
        mbd.PlanarBody("thrust", 2.0, 0.5, (1.0, 1.0), angle=0.3, angular_velocity=2.0),
        mbd.PlanarBody("mounted", 1.0, 0.1, (2.0, 0.0), angle=0.3),
        mbd.PointMass("dropped", 2.0, (0.0, 5.0)),
        mbd.PlanarBody("braked", 1.0, 0.5, (0.0, 8.0), angular_velocity=3.0),
    ]
    stiffness, damping = np.diag([1e3, 2e3, 0, 0, 0, 80.0]), np.diag([60.0, 90.0, 0, 0, 0, 5.0])
    forces = [
        mbd.ForceFunction("filter", mbd.ground, bodies[0], lagging, state=0.5, rate=lag),
        mbd.ForceFunction("repulsion", mbd.ground, bodies[1], Repulsion(jnp.array(4.0), 1.0, jnp.array(0))),
        mbd.Torque("spin up", bodies[2], lambda t: 3.0 * t),
        mbd.PointForce("jet", bodies[3], (1.0, 1.0), (1.5, 0.0), axes="body"),
        mbd.Bushing("mount", mbd.ground, bodies[4], (2.0, 0.0), stiffness, damping),
        mbd.PointForce("load", bodies[4], (2.0, 0.0), (10.0, -5.0)),
        mbd.Torque("moment", bodies[4], 4.0),
        mbd.PointForce("air", bodies[5], (0.0, 5.0), Air(jnp.array(1.5))),
        mbd.Torque("brake", bodies[6], lambda frame, t: -0.6 * frame.angular_velocity[2]),
    ]
    system = mbd.Model(bodies, forces=forces).build()
    run = lambda system: mbd.simulate(system, t1=1.0, integrator=mbd.HHT(tolerance=1e-7))  # noqa: E731
    first = run(system)
    traces = len(TRACES)
    second = run(system.set({"repulsion.gain": 9.0, "repulsion.reach": 0.5}))
    return SimpleNamespace(system=system, first=first, second=second, new_traces=len(TRACES) - traces)


ACCURACY = {"rtol": 1e-4, "atol": 1e-5}
"""second order at local errors of 1e-7: a hundred steps or so add up to 1e-5"""


def test_a_force_may_own_a_differential_state(planar):
    t, solution = np.asarray(planar.first.ts), planar.first
    state = LEVEL - (LEVEL - 0.5) * np.exp(-t / LAG)
    np.testing.assert_allclose(solution.x[:, 0], state, **ACCURACY)
    gone = (LEVEL - 0.5) * LAG * (1 - np.exp(-t / LAG))
    np.testing.assert_allclose(solution.velocity("filtered")[:, 0], (LEVEL * t - gone) / 2.0, **ACCURACY)


def test_a_users_module_has_named_parameters_and_a_new_value_does_not_recompile(planar):
    assert float(planar.system.get("repulsion.gain")) == 4.0
    assert float(planar.system.get("repulsion.reach")) == 1.0
    assert "repulsion.along" not in planar.system.parameter_names()
    assert planar.new_traces == 0
    for solution, rate in ((planar.first, 2.0), (planar.second, np.sqrt(4.5))):
        expected = 0.1 * np.cosh(rate * np.asarray(solution.ts))
        np.testing.assert_allclose(solution.position("repelled")[:, 0], expected, **ACCURACY)


def test_a_torque_may_depend_on_time(planar):
    t = np.asarray(planar.first.ts)
    np.testing.assert_allclose(planar.first.angular_velocity("spun"), 1.5 * t**2 / 0.5, **ACCURACY)


def test_a_load_may_depend_on_the_motion_of_its_body(planar):
    """Fall with drag, v = v_t tanh(g t / v_t), and a brake in proportion to the speed."""
    t, limit = np.asarray(planar.first.ts), np.sqrt(2.0 * 9.81 / 1.5)
    np.testing.assert_allclose(planar.first.velocity("dropped")[:, 1], -limit * np.tanh(9.81 * t / limit), **ACCURACY)
    np.testing.assert_allclose(planar.first.angular_velocity("braked"), 3.0 * np.exp(-0.6 / 0.5 * t), **ACCURACY)
    assert float(planar.system.get("air.drag")) == 1.5


def test_a_jet_in_body_axes_turns_with_the_body(planar):
    t, velocity = np.asarray(planar.first.ts), np.asarray(planar.first.velocity("thrust"))
    angle = 0.3 + 2.0 * t
    expected = 0.75 / 2.0 * np.stack([np.sin(angle) - np.sin(0.3), np.cos(0.3) - np.cos(angle)], axis=1)
    np.testing.assert_allclose(velocity, expected, **ACCURACY)


def test_a_loaded_bushing_settles_at_load_over_stiffness(planar):
    """Its slowest mode has a time constant of 60 ms; the run is a second long."""
    np.testing.assert_allclose(planar.first.position("mounted")[-1], [2.0 + 10.0 / 1e3, -5.0 / 2e3], atol=1e-6)
    np.testing.assert_allclose(planar.first.orientation("mounted")[-1], 0.3 + 4.0 / 80.0, atol=1e-6)


class TestFields:
    """A force on every body, of a class of one's own."""

    @pytest.fixture(scope="class")
    @staticmethod
    def medium():
        class Medium(mbd.AbstractField):
            """Resists every motion alike."""

            name: str = eqx.field(static=True)
            viscosity: jax.Array
            parameters: ClassVar = {"viscosity": mbd.parameters.not_negative("N s/m")}

            def __init__(self, name, viscosity):
                self.read_element(name, (), viscosity=viscosity)

            def force(self, mass, frame, t):
                return -self.viscosity * frame.velocity

        bodies = [mbd.PointMass(f"m{mass:g}", mass, position=(mass, 0.0), velocity=(1.0, 0.0)) for mass in (1.0, 2.0)]
        gravity = mbd.Gravity((0.0, -9.81), "weight")
        return mbd.Model(bodies, forces=[Medium("medium", 0.5), gravity]).build()

    def test_every_body_feels_it(self, medium):
        """v = v_0 exp(-c t / m); down to the weight over c."""
        run = mbd.simulate(medium, 1.0, integrator=mbd.RosenbrockNystrom(1e-7, 1e-7))
        fade = np.exp(-0.5 / np.array([1.0, 2.0]))
        np.testing.assert_allclose(run.final.v.reshape(2, 2)[:, 0], fade, rtol=1e-6)
        np.testing.assert_allclose(run.final.v.reshape(2, 2)[:, 1], -9.81 / 0.5 * np.array([1.0, 2.0]) * (1 - fade), rtol=1e-6)
        work = run.work()
        assert work["medium"].supplied[-1] < -1.0
        assert abs(work["weight"].supplied[-1]) < 1e-9
        assert np.max(np.abs(run.observe("energy.error"))) < 1e-5
        assert medium.get("medium.viscosity") == 0.5
        assert medium.set({"medium.viscosity": 2.0}).get("medium.viscosity") == 2.0

    def test_what_is_not_finite_is_named(self, medium):
        broken = eqx.tree_at(lambda s: s.fields[0].viscosity, medium, jnp.array(jnp.inf))
        with pytest.raises(mbd.SimulationError, match="force 'medium' is not finite"):
            mbd.simulate(broken, 1.0, integrator=mbd.RosenbrockNystrom())
