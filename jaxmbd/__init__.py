"""jaxmbd: differentiable multibody dynamics in JAX. SI units throughout."""

from . import _precision as _precision  # first: float64 must be on before any array is made
from . import control as control
from . import problems as problems
from . import view as view
from .conditioning import conditioning as conditioning
from .control import LocalError as LocalError
from .integrators.base import AbstractIntegrator as AbstractIntegrator
from .integrators.bdf import BDF as BDF
from .integrators.hht import HHT as HHT
from .integrators.hht import Newmark as Newmark
from .integrators.hht import Trapezoidal as Trapezoidal
from .results import RESULTS as RESULTS
from .simulate import simulate as simulate
from .solution import SimulationError as SimulationError
from .solution import Solution as Solution
from .system.bodies import PlanarBody as PlanarBody
from .system.bodies import PointMass as PointMass
from .system.bodies import RigidBody as RigidBody
from .system.drivers import Gear as Gear
from .system.drivers import Motion as Motion
from .system.drivers import RackAndPinion as RackAndPinion
from .system.drivers import Screw as Screw
from .system.elements import ground as ground
from .system.equations import AbstractSystem as AbstractSystem
from .system.forces import Bushing as Bushing
from .system.forces import ForceFunction as ForceFunction
from .system.forces import Gravity as Gravity
from .system.forces import PointForce as PointForce
from .system.forces import SpringDamper as SpringDamper
from .system.forces import Torque as Torque
from .system.forces import TorsionSpringDamper as TorsionSpringDamper
from .system.frames import Frame as Frame
from .system.joints import Cylindrical as Cylindrical
from .system.joints import Distance as Distance
from .system.joints import Fixed as Fixed
from .system.joints import Inline as Inline
from .system.joints import Inplane as Inplane
from .system.joints import Parallel as Parallel
from .system.joints import Penalty as Penalty
from .system.joints import Perpendicular as Perpendicular
from .system.joints import Planar as Planar
from .system.joints import Revolute as Revolute
from .system.joints import Spherical as Spherical
from .system.joints import Translational as Translational
from .system.joints import Universal as Universal
from .system.linearize import Linearization as Linearization
from .system.linearize import Modes as Modes
from .system.linearize import eigenvalues as eigenvalues
from .system.linearize import linearize as linearize
from .system.model import Model as Model
from .system.state import State as State
from .system.statics import equilibrium as equilibrium
from .system.system import System as System

__version__ = "0.1.0"
