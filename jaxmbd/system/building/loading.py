"""Models from files."""

from collections.abc import Iterable
from pathlib import Path

from ..files import model_files
from .model import Model


def load_model(path: str | Path, *, classes: Iterable[type] = ()) -> Model:
    """The model that `model.save(path)` or `system.save(path)` has written.

    A file is data and never code: kinds of bodies, joints, forces, laws and shapes by their names, and numbers, which come back to the last bit.
    They are checked as constructors check them. A field that is unknown is an error that tells the nearest one; one that is left out has the
    constructor's default. Classes of your own that the model uses are given: `classes=[BallInBowl]`.
    """
    return Model(*(parts := model_files.read(path, classes))[:3], scenery=parts.scenery)
