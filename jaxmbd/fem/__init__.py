"""Modes of flexible bodies: `SpaceFrame` makes matrices of tubes, `Structure` takes those of another program, `craig_bampton` reduces them to
what `mbd.ModalBody` moves with."""

from ..system.flexible.reduced import Recovery as Recovery
from ..system.flexible.reduced import ReducedBody as ReducedBody
from .reduction import craig_bampton as craig_bampton
from .reduction import free_modes as free_modes
from .reduction import project as project
from .space_frame import SpaceFrame as SpaceFrame
from .space_frame import Tube as Tube
from .structure import Structure as Structure
