"""Ready-made mechanisms: each is a function that returns a Model, and a name of the command line."""

from .belts import belt as belt
from .collisions import box_on_plane as box_on_plane
from .collisions import newton_cradle as newton_cradle
from .collisions import spheres_in_box as spheres_in_box
from .flexible import cam_beam as cam_beam
from .flexible import rotating_beam as rotating_beam
from .flexible import slider_crank_flexible as slider_crank_flexible
from .impacts import bouncing_ball as bouncing_ball
from .impacts import stiff_impact as stiff_impact
from .linkages import four_bar as four_bar
from .linkages import slider_crank as slider_crank
from .pendulums import DoublePendulumInAngles as DoublePendulumInAngles
from .pendulums import chain as chain
from .pendulums import double_pendulum as double_pendulum
from .pendulums import pendulum as pendulum
from .quads import atv as atv
from .registry import PROBLEMS as PROBLEMS
from .registry import Problem as Problem
from .rolling import ball_bearing as ball_bearing
from .splitting import Oscillators as Oscillators
from .splitting import PenaltyPendulum as PenaltyPendulum
from .splitting import oscillators as oscillators
from .splitting import penalty_pendulum as penalty_pendulum
from .tops import spinning_top as spinning_top
from .tracks import track as track
from .vehicles import hmmwv as hmmwv
