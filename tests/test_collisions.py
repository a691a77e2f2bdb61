"""Blocks, spheres and rows of balls move as their closed forms say."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

GRAVITY = 9.81


@eqx.filter_jit
def _follow(system, start, step, count):
    """(q, v, x) of one rigid body without joints at every step, by the classical Runge-Kutta method."""

    def rates(y):
        q, v, x = y[:7], y[7:14], y[14:]
        t = jnp.zeros(())
        acceleration = system.solve_mass(q, system.force(q, v, t, x)) + system.own_acceleration(q, v)
        return jnp.concatenate([v, acceleration, system.state_rate(x, q, v, t)])

    def advance(y, _):
        slope, total = rates(y), jnp.zeros_like(y)
        for share, weight in ((0.5, 1.0), (0.5, 2.0), (1.0, 2.0), (0.0, 1.0)):
            total = total + weight * slope
            slope = rates(y + share * step * slope) if share else slope
        y = y + step / 6 * total
        return y, y

    return jax.lax.scan(advance, start, length=count)[1]


def follow(model, t1, step=1e-4):
    """Times and rows of (q, v, x)."""
    system = model.build().prepare()
    count = round(t1 / step)
    start = jnp.concatenate([system.q0, system.v0, system.x0])
    return step * np.arange(1, count + 1), np.asarray(_follow(system, start, step, count))


@pytest.fixture(scope="module")
def blocks():
    """By share of the angle of friction, atan(0.4), kinetic coefficient and law: angle, times, way down the slope, speed."""
    found = {}
    for share, kinetic, law in ((0.9, 0.4, "lugre"), (0.9, 0.4, "coulomb"), (1.1, 0.4, "lugre"), (1.1, 0.3, "lugre")):
        angle = share * np.arctan(0.4)
        t, y = follow(mbd.problems.box_on_plane(angle, kinetic=kinetic, friction=law), 0.3)
        down = np.array([np.cos(angle), 0.0, -np.sin(angle)])
        found[share, kinetic, law] = (angle, t, (y[:, :3] - y[0, :3]) @ down, y[:, 7:10] @ down)
    return found


def test_a_block_sticks_below_the_angle_of_friction(blocks):
    """It yields by some deflections of its bristles, mu_s / sigma_0 = 40 micrometres, and stands still."""
    _, t, way, speed = blocks[0.9, 0.4, "lugre"]
    assert 0 < way[-1] < 2e-4
    assert np.abs(speed[t > 0.25]).max() < 1e-9


def test_regularised_friction_creeps_where_it_should_stick(blocks):
    """At v_r s / sqrt(1 - s^2), with the share s of the limiting load; v_r is 0.2 mm/s."""
    angle, t, _, speed = blocks[0.9, 0.4, "coulomb"]
    share = np.tan(angle) / 0.4
    np.testing.assert_allclose(speed[t > 0.25], 2e-4 * share / np.sqrt(1 - share**2), rtol=1e-6)


def test_a_block_slides_above_the_angle_of_friction(blocks):
    """Down with g (sin - mu_k cos) once it has left its bristles behind."""
    for kinetic in (0.4, 0.3):
        angle, t, _, speed = blocks[1.1, kinetic, "lugre"]
        late = t > 0.1
        acceleration = np.polyfit(t[late], speed[late], 1)[0]
        np.testing.assert_allclose(acceleration, GRAVITY * (np.sin(angle) - kinetic * np.cos(angle)), rtol=0.02)


def test_a_sliding_sphere_goes_over_to_rolling_at_five_sevenths_of_its_speed():
    radius, mass, speed, mu = 0.1, 2.0, 0.7, 0.3
    inertia, stiffness = 0.4 * mass * radius**2, 1e6
    sink = (mass * GRAVITY / stiffness) ** (2 / 3)
    ball = mbd.RigidBody("ball", mass, (inertia,) * 3, (0.0, 0.0, radius - sink), velocity=(0.6 * speed, 0.8 * speed, 0.0))
    law, friction = mbd.HuntCrossley(stiffness, 0.5), mbd.Coulomb(mu, regularisation=1e-3)
    alley = mbd.SpherePlane("alley", ball, mbd.ground, radius, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), law, friction)
    t, y = follow(mbd.Model([ball], forces=[alley, mbd.Gravity((0.0, 0.0, -GRAVITY))]), 0.12)
    velocity = y[:, 7:10] @ np.array([0.6, 0.8, 0.0])
    slides = t < 0.9 * 2 / 7 * speed / (mu * GRAVITY)
    # Regularised friction lacks (v_r / v)^2 / 2 of its limit, a millionth at first and more as rolling comes near.
    np.testing.assert_allclose(velocity[slides], speed - mu * GRAVITY * t[slides], rtol=1e-3)
    np.testing.assert_allclose(velocity[-1], 5 / 7 * speed, rtol=2e-3)
    # The rate of Euler parameters is half the angular velocity.
    np.testing.assert_allclose(2 * np.linalg.norm(y[-1, 10:14]), velocity[-1] / radius, rtol=2e-3)


def row_of_balls(balls, lifted, angle, t1):
    """The cradle in the angles of its strings, without joints: speeds at the end over the speed of the impact."""
    radius, length, mass = 0.01, 0.2, 4 / 3 * np.pi * 0.01**3 * 7850.0
    stiffness = 4 / 3 * (206e9 / (2 * (1 - 0.3**2))) * np.sqrt(radius / 2)

    def swing(t, y):
        theta, rate = y[:balls], y[balls:]
        x, z = 2 * radius * np.arange(balls) + length * np.sin(theta), -length * np.cos(theta)
        between = np.stack([np.diff(x), np.diff(z)])
        distance = np.hypot(*between)
        push = stiffness * np.maximum(2 * radius - distance, 0.0) ** 1.5 * between / distance
        force = np.zeros((2, balls))
        force[:, :-1] -= push
        force[:, 1:] += push
        pull = force[0] * np.cos(theta) + (force[1] - mass * GRAVITY) * np.sin(theta)
        return np.concatenate([rate, pull / (mass * length)])

    start = np.concatenate([np.where(np.arange(balls) < lifted, -angle, 0.0), np.zeros(balls)])
    run = solve_ivp(swing, (0.0, t1), start, rtol=1e-9, atol=1e-11, max_step=5e-3)
    return length * run.y[balls:, -1]


@pytest.mark.slow
def test_newtons_cradle_passes_on_a_wave_and_not_one_ball():
    """Balls that touch: the last gets 0.995 of the speed, the one before it 0.076, and the first goes back with 0.071."""
    speed = np.sqrt(2 * GRAVITY * 0.2 * (1 - np.cos(0.2)))
    integrator = mbd.DormandPrince(rtol=1e-7, atol=1e-9)
    solution = mbd.simulate(mbd.problems.newton_cradle(3), 0.23, integrator=integrator, max_step=5e-3)
    found = np.array([np.asarray(solution.velocity(f"ball[{i}]"))[-1, 0] for i in range(3)])
    np.testing.assert_allclose(found, row_of_balls(3, 1, 0.2, 0.23), atol=1e-4 * speed)
    np.testing.assert_allclose(found / speed, [-0.071, 0.076, 0.994], atol=2e-3)
    # Without loss, and without what two strings a ball do not allow.
    energy = np.asarray(solution.energy().total)
    kinetic = 0.5 * 4 / 3 * np.pi * 0.01**3 * 7850.0 * speed**2
    assert np.abs(energy - energy[0]).max() < 1e-4 * kinetic
    loads = solution.contact("contact")
    assert loads.normal_force.shape == (len(solution.ts), 2)
    assert np.all(np.asarray(loads.normal_force).max(0) > 150.0)
    # An elastic contact between balls on a line takes from one what it gives to the other, as fast as they approach.
    work = np.sum(np.asarray(loads.power), -1)
    assert np.all(np.abs(work) <= np.asarray(loads.normal_force) * speed)


@pytest.mark.slow
def test_spheres_stay_in_their_box_and_lose_energy():
    """Contacts only take energy; after four times the fall's duration little motion is left, and no sphere is in a wall or in another."""
    model = mbd.problems.spheres_in_box(8)
    solution = mbd.simulate(model, 0.3, integrator=mbd.DormandPrince(), step=4e-5, saveat=np.linspace(0.0, 0.3, 31))
    energy = solution.energy()
    total, kinetic = np.asarray(energy.total), np.asarray(energy.kinetic)
    assert np.all(np.diff(total) < 1e-6 * total[0])
    assert kinetic[-1] < 0.01 * kinetic.max()
    # A sphere of 10 g that falls from 24 mm dips into a spring of 1 MN/m^1.5 by 0.14 mm at most.
    for group in ("spheres", "walls"):
        loads, seen = solution.contact(group), solution.observe([f"{group}.gap", f"{group}.normal_force"])
        assert np.asarray(loads.gap).min() > -2e-4
        np.testing.assert_array_equal(seen[f"{group}.gap"], np.asarray(loads.gap).min(axis=1))
        np.testing.assert_allclose(seen[f"{group}.normal_force"], np.asarray(loads.normal_force).sum(axis=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.problems.newton_cradle(3, 3), "newton_cradle: lift at least one ball and fewer than all"),
        (lambda: mbd.problems.newton_cradle(gap=-1e-3).build(), r"force 'contact\[\d\]': 'ball\[\d\]' and 'ball\[\d\]' overlap by 0.001 m"),
        (lambda: mbd.problems.box_on_plane(friction="glue"), "box_on_plane: friction must be 'lugre' or 'coulomb', got 'glue'"),
        (lambda: mbd.problems.spheres_in_box(1), "spheres_in_box: give two spheres at least"),
    ],
)
def test_impossible_problems_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


CONTROLLED = {"hht": mbd.HHT, "bdf": mbd.BDF, "bdf at index 3": functools.partial(mbd.BDF, index=3)}


class TestElasticImpact:
    """A disc slides along a slanted rail onto a spring that acts on contact only, and the rail carries what does not turn it back: it leaves
    with the speed that it came with."""

    @pytest.fixture(scope="class")
    @classmethod
    def system(cls):
        disc = mbd.PlanarBody("disc", 1.0, 1.0, (0.0, 0.2), velocity=(-0.6, -0.8))
        rail = mbd.Inline("rail", mbd.ground, disc, (0.0, 0.2), (0.6, 0.8))
        floor = mbd.DiscLine("floor", disc, mbd.ground, (0.0, 0.2), 0.1, (0.0, 0.0), (0.0, 1.0), mbd.LinearContact(1e6))
        return mbd.Model([disc], [rail], [floor]).build()

    @staticmethod
    def lost(run):
        return abs(float(run.final.v[:2] @ np.array([0.6, 0.8])) - 1.0)

    @pytest.mark.parametrize("method", CONTROLLED)
    def test_the_speed_returns(self, system, method):
        """To 100 tolerances. Controlled in positions alone, percents were lost at any tolerance; and behind the impact BDF crawled, because in
        steps of a nanosecond rounding was called a failure of Newton's method."""
        for tolerance in (1e-5, 1e-7, 1e-8):
            run = mbd.simulate(system, 0.25, integrator=CONTROLLED[method](tolerance))
            assert self.lost(run) < 100 * tolerance
            assert run.stats["newton_failures"] == 0

    @pytest.mark.parametrize("method", [mbd.HHT, mbd.BDF])
    def test_the_papers_control_of_positions_alone(self, system, method):
        """Takes half the steps, and says nothing of velocities."""
        plain, right = (mbd.simulate(system, 0.25, integrator=method(1e-8, velocity_error=choice)) for choice in (False, True))
        assert plain.stats["steps"] < 0.5 * right.stats["steps"]
        assert self.lost(plain) > 100 * self.lost(right)
