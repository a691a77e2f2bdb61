"""Rolling bearings."""

import numpy as np

from ..bearings import DeepGroove
from ..system.building.model import Model


def ball_bearing(
    axial_load: float = 1000.0,
    radial_load: float = 0.0,
    speed: float = 1e4,
    balls: int = 9,
    cage_speed_ratio: float = 0.99,
    rings: str = "penalty",
) -> Model:
    """A deep-groove ball bearing 6209 with a polyamide cage: outer ring held, inner ring driven at 10^4 rpm under 1000 N of axial load.

    What the papers of Modin, Fritzson, Führer and Söderlind on semi-explicit splitting and on contact power end with. It starts from the
    quasi-static solution, so that no artificial transient hides the physics; the cage starts 1 % slower than the balls go round, which catch
    it in its pockets. Loads [N] act on the inner ring, along z and x; the speed is in revolutions per minute. With rings="penalty" both
    rings are rigid bodies on penalty joints of 10^7 rad/s, for SemiExplicit(beta=0.8) at steps of 1e-6 to 5e-6 s (10^-5 is the limit of
    stability); with rings="prescribed" they have no joints at all, for Verlet and other explicit methods.

    `mbd.bearings.DeepGroove` has all parameters, and reports in an engineer's terms. Names: inner, outer, ball[0], ..., cage; ball_inner[0],
    ..., ball_outer[0], ..., ball_pocket[0], ..., guidance; load; hold, guide.
    """
    return DeepGroove(
        balls=balls,
        axial_load=axial_load,
        radial_load=radial_load,
        inner_speed=speed * 2 * np.pi / 60,
        cage_speed_ratio=cage_speed_ratio,
        rings=rings,
    ).model()
