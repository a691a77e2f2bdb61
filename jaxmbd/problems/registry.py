"""The list of problems that `jaxmbd list` shows and `jaxmbd run` runs."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..system.building.model import Model
from ..system.equations import AbstractSystem
from .belts import belt
from .collisions import box_on_plane, newton_cradle, spheres_in_box
from .flexible import cam_beam, rotating_beam, slider_crank_flexible
from .impacts import bouncing_ball, stiff_impact
from .linkages import four_bar, slider_crank
from .pendulums import chain, double_pendulum, pendulum
from .quads import atv
from .rolling import ball_bearing
from .splitting import oscillators, penalty_pendulum
from .tops import spinning_top
from .tracks import track
from .vehicles import hmmwv


class Problem(NamedTuple):
    """A ready-made mechanism."""

    function: Callable[..., Model | AbstractSystem]
    """builds it; its arguments are the problem's options"""
    description: str
    """one line"""
    t1: float
    """s, how long it is worth watching"""
    conserves_energy: bool
    """False: dampers or motors change the energy"""
    max_step: float | None = None
    """s, a bound for adaptive steps where a longer one would miss what happens"""
    integrator: str = "hht"
    """the method of the command line that suits it"""
    step: float | None = None
    """s, a fixed step that suits it; None: adaptive ones do"""
    tolerance: float = 1e-5
    """the one of the command line that suits it"""
    camera: tuple[float, float, float] | None = None
    """from where pictures look at it, a direction in the ground's axes; None: from the front and a little above"""
    speed: float | None = None
    """seconds of the run in a second of a film; None: so that it lasts some seconds"""

    def options(self) -> dict[str, Any]:
        """The names and default values of the arguments of `function`."""
        return {name: p.default for name, p in inspect.signature(self.function).parameters.items()}


PROBLEMS: dict[str, Problem] = {
    "pendulum": Problem(pendulum, "a rod on a hinge, held by a torsion spring and damper", t1=2.0, conserves_energy=False),
    "double-pendulum": Problem(
        double_pendulum,
        "two rods with a soft and a very stiff torsion spring and damper (Negrut et al. 2003)",
        t1=2.0,
        conserves_energy=False,
    ),
    "four-bar": Problem(four_bar, "a crank-rocker linkage that turns freely under gravity", t1=2.0, conserves_energy=True),
    "slider-crank": Problem(
        slider_crank, "a piston on a connecting rod, the crank driven at constant speed", t1=1.0, conserves_energy=False
    ),
    "spinning-top": Problem(spinning_top, "a heavy symmetric top in steady slow precession", t1=2.0, conserves_energy=True),
    "chain": Problem(chain, "n rods hinged to each other, swinging under gravity", t1=2.0, conserves_energy=True),
    "hmmwv": Problem(
        hmmwv,
        "a truck with double wishbones and very stiff springs drives over a bump (Negrut et al. 2003)",
        t1=5.0,
        conserves_energy=False,
        max_step=0.02,
    ),
    "belt": Problem(
        belt,
        "a poly-V belt of n segments drives alternator and water pump of a car engine (Negrut et al. 2005)",
        t1=0.2,
        conserves_energy=False,
        integrator="hht-mm",
    ),
    "track": Problem(
        track,
        "a crawler track of n shoes on its sprocket, rollers and the ground (Negrut et al. 2005)",
        t1=3.0,
        conserves_energy=False,
        max_step=0.01,
        integrator="hht-mm",
    ),
    "atv": Problem(
        atv,
        "an all-terrain vehicle with a flexible frame on four shaking posts (Negrut et al. 2005)",
        t1=2.0,
        conserves_energy=False,
        max_step=5e-4,
    ),
    "stiff-impact": Problem(
        stiff_impact,
        "a driven cam swings an impactor against a sprung body: stiff contact with LuGre friction (Bottasso et al. 2007)",
        t1=1.2,
        conserves_energy=False,
    ),
    "cam-beam": Problem(
        cam_beam,
        "a driven, flexible cam swings an impactor against a body on a flexible beam (Bottasso et al. 2007)",
        t1=0.495,
        conserves_energy=False,
        max_step=0.01,
        tolerance=1e-7,
    ),
    "rotating-beam": Problem(
        rotating_beam, "a flexible arm is spun up: it lags behind, and is stretched straight", t1=20.0, conserves_energy=False
    ),
    "slider-crank-flexible": Problem(
        slider_crank_flexible, "a piston on a connecting rod that bends, the crank driven fast", t1=0.5, conserves_energy=False
    ),
    "ball-bearing": Problem(
        ball_bearing,
        "a deep-groove ball bearing at 10^4 rpm under axial load: stiff contacts, penalty joints (Modin et al. 2007)",
        t1=0.011,
        conserves_energy=False,
        max_step=5e-6,
        integrator="semi-explicit",
        step=2e-6,
        camera=(0.35, -0.55, 1.0),
        speed=1e-3,
    ),
    "oscillators": Problem(
        oscillators,
        "two masses tied by a stiff spring and damper on a soft spring (Modin et al. 2007)",
        t1=20.0,
        conserves_energy=False,
    ),
    "penalty-pendulum": Problem(
        penalty_pendulum, "a mass held on a circle by a stiff force (Modin et al. 2007)", t1=10.0, conserves_energy=True
    ),
    "bouncing-ball": Problem(
        bouncing_ball,
        "a steel ball bounces without loss: contacts of 1 ms between flights of 0.9 s (Modin et al.)",
        t1=2.0,
        conserves_energy=True,
        max_step=2e-4,
        integrator="verlet",
        step=5e-5,
    ),
    "newton-cradle": Problem(
        newton_cradle,
        "steel balls on strings pass on an impulse through Hertz's contacts",
        t1=1.0,
        conserves_energy=True,
        max_step=5e-3,
        integrator="dormand-prince",
        tolerance=1e-7,
    ),
    "box-on-plane": Problem(box_on_plane, "a block on an incline sticks or slides", t1=0.5, conserves_energy=False, max_step=0.01),
    "spheres-in-box": Problem(
        spheres_in_box,
        "n spheres fall into a box, all pairs may touch",
        t1=0.3,
        conserves_energy=False,
        max_step=1e-3,
        integrator="verlet",
        step=4e-5,
    ),
}
"""By the name that the command line uses; the functions have the same names with underscores."""
