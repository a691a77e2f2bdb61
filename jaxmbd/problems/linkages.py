"""Closed loops of rods."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.bodies.planar import PlanarBody
from ..system.building.model import Model
from ..system.elements import ground
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Translational
from .rods import gravity, hinge, rod


def four_bar(spatial: bool = False) -> Model:
    """A crank-rocker in the x-y plane that turns freely under gravity, 9.81 m/s^2 along -y.

    The crank starts along +x at 15 rad/s. Uniform rods of 1 kg a metre: crank 0.2 m, coupler 0.5 m, rocker 0.4 m; the
    rocker's ground hinge is at (0.5, 0) m (0.2 + 0.5 < 0.5 + 0.4: the crank turns fully). Built in space from four
    parallel revolute joints it has three redundant constraints and warns so. Names: crank, coupler, rocker, hinge1
    (ground, crank), hinge2 (crank, coupler), hinge3 (coupler, rocker), hinge4 (rocker, ground), gravity.
    """
    crank, coupler, rocker, base, speed = 0.2, 0.5, 0.4, 0.5, 15.0
    a, b = np.array([crank, 0.0]), np.array([base, 0.0])
    # The joint of coupler and rocker, above the base line: a triangle over (a, b).
    reach = base - crank
    along = (coupler**2 - rocker**2 + reach**2) / (2 * reach)
    c = a + np.array([along, np.sqrt(coupler**2 - along**2)])
    # Velocities: speed z x a + w_coupler z x (c - a) = w_rocker z x (c - b).
    turned = [np.array([-u[1], u[0]]) for u in (a, c - a, c - b)]
    w_coupler, w_rocker = np.linalg.solve(np.column_stack([turned[1], -turned[2]]), -speed * turned[0])
    towards_c = [float(np.arctan2(*(c - u)[::-1])) for u in (a, b)]
    bodies = [
        rod("crank", crank, crank, (0.0, 0.0), 0.0, angular_velocity=speed, spatial=spatial),
        rod(
            "coupler",
            coupler,
            coupler,
            a,
            towards_c[0],
            angular_velocity=w_coupler,
            start_velocity=speed * turned[0],
            spatial=spatial,
        ),
        rod("rocker", rocker, rocker, b, towards_c[1], angular_velocity=w_rocker, spatial=spatial),
    ]
    joints = [
        hinge("hinge1", ground, "crank", (0.0, 0.0), spatial),
        hinge("hinge2", "crank", "coupler", a, spatial),
        hinge("hinge3", "coupler", "rocker", c, spatial),
        hinge("hinge4", "rocker", ground, b, spatial),
    ]
    return Model(bodies, joints, [gravity(spatial)])


class ConstantSpeed(eqx.Module):
    """An angle that grows evenly from zero."""

    speed: Float[Numbers, "*stack"]
    """rad/s"""

    def __call__(self, t: Array) -> Array:
        return self.speed * t


def slider_crank() -> Model:
    """A crank of 0.1 m, driven at two turns a second, a connecting rod of 0.3 m and a piston on the x axis.

    The crank starts along +x. Planar, without gravity: crank 0.5 kg and rod 0.8 kg are uniform, the piston weighs 0.4
    kg. The piston's centre is at r cos(theta) + sqrt(l^2 - r^2 sin^2(theta)). Names: crank, rod, piston,
    main_bearing, crank_pin, piston_pin, cylinder, motor (`motor.speed` in rad/s).
    """
    r, length, speed = 0.1, 0.3, 4 * np.pi
    pin, end = np.array([r, 0.0]), np.array([r + length, 0.0])
    crank = rod("crank", 0.5, r, (0.0, 0.0), 0.0, angular_velocity=speed)
    # In the dead centre, the far end of the connecting rod stands still.
    pin_velocity = np.array([0.0, speed * r])
    turning = -speed * r / length
    connecting = rod("rod", 0.8, length, pin, 0.0, angular_velocity=turning, start_velocity=pin_velocity)
    piston = PlanarBody("piston", 0.4, inertia=2e-4, position=end)
    return Model(
        [crank, connecting, piston],
        [
            hinge("main_bearing", ground, crank, (0.0, 0.0)),
            hinge("crank_pin", crank, connecting, pin),
            hinge("piston_pin", connecting, piston, end),
            Translational("cylinder", ground, piston, end, axis=(1.0, 0.0)),
            Motion("motor", ground, crank, function=ConstantSpeed(jnp.asarray(speed))),
        ],
    )
