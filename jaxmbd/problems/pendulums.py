"""Pendulums and chains: rods that hang on each other."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._numbers import Numbers
from ..system.bodies.planar import PlanarBody
from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.elements import ground
from ..system.equations import AbstractSystem
from ..system.forces.springs import TorsionSpringDamper
from ..system.joints.one_axis import Revolute
from .rods import STANDARD_GRAVITY, gravity, hinge, rod


def pendulum(spatial: bool = True) -> Model:
    """A rod on a hinge at the origin, held by a torsion spring and damper.

    It starts at rest along +x and comes to rest hanging down. Mass 3 kg, inertia 1 kg m^2 about the centre of mass,
    which is 1 m from the hinge; gravity 9.81 m/s^2 along -y; spring 400 N m/rad with the free angle -1.57 rad (down),
    damper 15 N m s/rad. Names: rod, hinge, spring, gravity.
    """
    body: PlanarBody | RigidBody
    if spatial:
        body = RigidBody("rod", mass=3.0, inertia=(0.01, 1.0, 1.0), position=(1.0, 0.0, 0.0))
    else:
        body = PlanarBody("rod", mass=3.0, inertia=1.0, position=(1.0, 0.0))
    spring = TorsionSpringDamper("spring", ground, body, axis=(0, 0, 1), stiffness=400.0, damping=15.0, free_angle=-1.57)
    return Model([body], [hinge("hinge", ground, body, (0.0, 0.0), spatial)], [gravity(spatial), spring])


def double_pendulum(spatial: bool = False, second_rate: float = 10.0) -> Model:
    """The stiff double pendulum of Negrut et al. (2003), section 3.1.

    Uniform rods of half lengths 1 m and 1.5 m, 3 kg and 0.3 kg, in the x-y plane with gravity 9.81 m/s^2 along -y.
    Their angles to the x axis start at theta_1 = 2 pi, theta_2 = 23 pi / 12 with rates 0 and `second_rate` [rad/s]: 10, as
    printed, or 0, the start that the paper's error tables belong to. The springs
    (400 and 3e5 N m/rad, dampers 15 and 5e4 N m s/rad) are relaxed at theta_1 = 3 pi / 2 and at theta_2 = theta_1.
    Names: rod1, rod2, hinge1, hinge2, spring1, spring2, gravity.

    ```bibtex
    @article{negrut2003rosenbrock,
      title={A {Rosenbrock-Nystrom} state space implicit approach for the dynamic analysis of mechanical systems:
             {II} -- The method and numerical examples},
      author={Negrut, Dan and Sandu, Adrian and Haug, Edward J. and Potra, Florian A. and Sandu, Corina},
      year={2003}
    }
    ```
    """
    theta1, theta2 = 2 * np.pi, 23 * np.pi / 12
    elbow = 2.0 * np.array([np.cos(theta1), np.sin(theta1)])
    rod1 = rod("rod1", 3.0, 2.0, (0.0, 0.0), theta1, spatial=spatial)
    rod2 = rod("rod2", 0.3, 3.0, elbow, theta2, angular_velocity=second_rate, spatial=spatial)
    axis = (0, 0, 1)
    # Angles count from the initial configuration.
    spring1 = TorsionSpringDamper("spring1", ground, rod1, axis, stiffness=400.0, damping=15.0, free_angle=1.5 * np.pi - theta1)
    spring2 = TorsionSpringDamper("spring2", rod1, rod2, axis, stiffness=3e5, damping=5e4, free_angle=theta1 - theta2)
    return Model(
        [rod1, rod2],
        [hinge("hinge1", ground, rod1, (0.0, 0.0), spatial), hinge("hinge2", rod1, rod2, elbow, spatial)],
        [gravity(spatial), spring1, spring2],
    )


class DoublePendulumInAngles(AbstractSystem):
    """The same double pendulum as equations for its two angles, written down by hand: no bodies, no joints. For comparison."""

    q0: Float[Numbers, "*stack 2"]
    """rad, theta_1 and theta_2 to the x axis"""
    v0: Float[Numbers, "*stack 2"]
    """rad/s"""

    def __init__(self):
        self.q0, self.v0 = jnp.array([2 * np.pi, 23 * np.pi / 12]), jnp.array([0.0, 10.0])

    def coordinate_lengths(self):
        return False, False

    def mass(self, q):
        # Uniform rods of half lengths 1 and 1.5 m: m (2 L)^2 / 12 about the centre, 3 kg and 0.3 kg.
        coupling = 2 * 0.3 * 1.0 * 1.5 * jnp.cos(q[0] - q[1])
        first, second = 3.0 / 3 + 3.0 + 4 * 0.3, 0.3 * 1.5**2 / 3 + 0.3 * 1.5**2
        return jnp.array([[first, 0.0], [0.0, second]]) + coupling * jnp.array([[0.0, 1.0], [1.0, 0.0]])

    def force(self, q, v, t):
        turning = 2 * 0.3 * 1.0 * 1.5 * jnp.sin(q[0] - q[1])
        weights = STANDARD_GRAVITY * jnp.stack([(3.0 + 2 * 0.3) * 1.0 * jnp.cos(q[0]), 0.3 * 1.5 * jnp.cos(q[1])])
        return turning * jnp.stack([-(v[1] ** 2), v[0] ** 2]) - weights

    def stiff_force(self, q, v, t):
        first = -400.0 * (q[0] - 1.5 * np.pi) - 15.0 * v[0]
        second = -3e5 * (q[1] - q[0]) - 5e4 * (v[1] - v[0])
        return jnp.stack([first - second, second])

    def reference(self, ts: np.ndarray) -> np.ndarray:
        """The two angles [rad] at times [s] from 0 on, by scipy's Radau at 1e-12."""
        from scipy.integrate import solve_ivp

        @jax.jit
        def rate(s):
            q, v = s[:2], s[2:]
            force = self.force(q, v, 0.0) + self.stiff_force(q, v, 0.0)
            return jnp.concatenate([v, jnp.linalg.solve(self.mass(q), force)])

        slope = jax.jit(jax.jacfwd(rate))
        run = solve_ivp(
            lambda t, s: np.asarray(rate(s)),
            (0.0, float(ts[-1])),
            np.concatenate([self.q0, self.v0]),
            "Radau",
            ts,
            rtol=1e-12,
            atol=1e-12,
            jac=lambda t, s: np.asarray(slope(s)),
        )
        return run.y[:2].T


def chain(n: int = 8, spatial: bool = True, closed: bool = False) -> Model:
    """A straight chain of n rods, released from rest at 30 degrees to the vertical; gravity 9.81 m/s^2 along -y.

    Every rod is uniform, 0.25 m long, 0.1 kg, hinged about z. The motion is plane; in space (the default) the rods
    are rigid bodies, 7 n coordinates and 6 n constraints. With `closed`, the rods are a regular polygon (n at least 3)
    that hangs by one corner: its last hinge, between the last rod's end and the ground, closes the loop; in space, it
    has three redundant rows. Names: link1 ... linkn, hinge1 ... hingen (and hinge n + 1, if closed), gravity.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"a chain needs a whole number n of links, at least 1, got {n!r}.")
    if closed and n < 3:
        raise ValueError(f"a closed chain needs at least 3 links, got {n}.")
    length, angles = 0.25, np.full(n, -np.pi / 3)
    if closed:
        angles = -np.pi / 3 + 2 * np.pi / n * np.arange(n)
    pitches = length * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    corners = np.concatenate([np.zeros((1, 2)), np.cumsum(pitches, axis=0)])
    links: list[PlanarBody | RigidBody] = []
    hinges: list[Revolute] = []
    for i, (corner, angle) in enumerate(zip(corners[:-1], angles, strict=True)):
        link = rod(f"link{i + 1}", 0.1, length, corner, float(angle), spatial=spatial)
        hinges.append(hinge(f"hinge{i + 1}", links[-1] if links else ground, link, corner, spatial))
        links.append(link)
    if closed:
        hinges.append(hinge(f"hinge{n + 1}", links[-1], ground, corners[0], spatial))
    return Model(links, hinges, [gravity(spatial)])
