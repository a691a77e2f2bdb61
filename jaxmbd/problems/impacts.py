"""Mechanisms whose parts hit each other."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.bodies.planar import PlanarBody
from ..system.building.model import Model
from ..system.contact.friction import LuGre
from ..system.contact.laws import LinearContact
from ..system.contact.planar import DiscLine
from ..system.elements import ground
from ..system.forces.gravity import Gravity
from ..system.forces.springs import SpringDamper
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Translational
from .rods import hinge, rod


class RaisedCosine(eqx.Module):
    """An angle that starts from rest, grows to twice the amplitude and comes back: amplitude (1 - cos(frequency t))."""

    amplitude: Float[Numbers, "*stack"]
    """rad"""
    frequency: Float[Numbers, "*stack"]
    """rad/s"""

    def __call__(self, t: Array) -> Array:
        return self.amplitude * (1.0 - jnp.cos(self.frequency * t))


def stiff_impact() -> Model:
    """A driven cam swings a 4 kg impactor against a 4 kg body on a sprung guide: contact of 2 GN/m, LuGre friction.

    A stand-in without flexible bodies for the cam and beam of Bottasso, Bauchau and Cardona (2007), section 5, with their numbers for drive,
    masses, contact stiffness and friction. Planar, no gravity:

        guide (y), 50 kN/m, 100 N s/m       the target, 4 kg, slides along y on the y axis; its lower face is the line
             |                              y = 0.4 m
        =====+====== target                 the impactor, 4 kg, a disc of radius 50 mm at the tip of the cam, slides
                  (o) impactor              across the cam on the mount, 1 MN/m, 200 N s/m: the bending of the cam
                 /                          the cam, 0.4 m, 0.64 kg, hinged at the origin, starts at rest 30 degrees above
                / cam                       the x axis and turns by pi/3 (1 - cos(2 pi/3 t)) rad

    The disc meets the face at t = 0.51 s and 61 degrees, approaching at 0.37 m/s and sliding at 0.77 m/s. It bounces some 29 times within 50 ms,
    lifts the target by 50 mm as the cam passes through the vertical at 0.75 s, sliding all the while, and lets go of it at 0.99 s. The first
    impact lasts 0.12 ms and peaks at 27 kN: adaptive steps fall from hundredths of a second to microseconds. Friction takes 221 of the 225 J of
    the drive.

    The contact has 5 kN s/m in parallel (the paper's "10^-3" has no unit; this is a restitution near 0.9), friction the paper's
    sigma_0 = 1e5 1/m, sigma_1 = sigma_2 = 0, v_s = 1 mm/s, mu_k = mu_s = 0.3, gamma = 2.

    Names: cam, impactor, target, pivot (ground, cam), drive (`drive.amplitude`, `drive.frequency`), mount (cam, impactor), bending, guide
    (ground, target), support, contact (`contact.law.stiffness`, `contact.friction.static`, ...).

    ```bibtex
    @article{bottasso2007scaling,
      title={Time-step-size-independent conditioning and sensitivity to perturbations in the numerical solution of index three differential
             algebraic equations},
      author={Bottasso, Carlo L. and Bauchau, Olivier A. and Cardona, Alberto},
      journal={SIAM Journal on Scientific Computing},
      volume={29},
      number={1},
      pages={397--414},
      year={2007}
    }
    ```
    """
    length, radius, start, face = 0.4, 0.05, np.pi / 6, 0.4
    along, across = np.array([np.cos(start), np.sin(start)]), np.array([-np.sin(start), np.cos(start)])
    tip = length * along
    cam = rod("cam", 0.64, length, (0.0, 0.0), start)
    impactor = PlanarBody("impactor", 4.0, 0.5 * 4.0 * radius**2, tip, start)
    target = PlanarBody("target", 4.0, 4.0 * (0.6**2 + 0.1**2) / 12, (0.0, face + 0.05))
    above = (0.0, face + 0.05 + 0.5)
    return Model(
        [cam, impactor, target],
        [
            hinge("pivot", ground, cam, (0.0, 0.0)),
            Motion("drive", ground, cam, function=RaisedCosine(jnp.asarray(np.pi / 3), jnp.asarray(2 * np.pi / 3))),
            Translational("mount", cam, impactor, tip, across),
            Translational("guide", ground, target, target.position, (0.0, 1.0)),
        ],
        [
            SpringDamper("bending", cam, impactor, tip - 0.1 * across, tip, stiffness=1e6, damping=200.0),
            SpringDamper("support", ground, target, above, target.position, stiffness=5e4, damping=100.0),
            DiscLine(
                "contact",
                impactor,
                target,
                centre=tip,
                radius=radius,
                point=(0.0, face),
                normal=(0.0, -1.0),
                law=LinearContact(stiffness=2e9, damping=5e3),
                friction=LuGre(bristle_stiffness=1e5, static=0.3, kinetic=0.3, stribeck_velocity=1e-3, exponent=2.0),
            ),
        ],
    )


def bouncing_ball(height: float = 1.0, stiffness: float = 1e7) -> Model:
    """A ball of 1 kg, dropped from a gap of `height` [m], bounces without loss on a floor of `stiffness` [N/m].

    The bouncing ball of Modin, Führer, Fritzson and Söderlind, section 6.1: with 1e7 N/m a contact lasts 1 ms, a flight 0.9 s. Without
    loss the tops stay where they are, tops(t) = height; the period is sqrt(8 height / g) and a contact.

    Names: ball (its centre is 50 mm above its lowest point), contact (`contact.law.stiffness`, `contact.law.damping`).
    """
    radius = 0.05
    ball = PlanarBody("ball", 1.0, 0.4 * radius**2, (0.0, height + radius))
    contact = DiscLine(
        "contact", ball, ground, ball.position, radius, point=(0.0, 0.0), normal=(0.0, 1.0), law=LinearContact(stiffness=stiffness)
    )
    return Model([ball], forces=[contact, Gravity((0.0, -9.81))])
