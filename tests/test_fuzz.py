"""Random mechanisms obey mechanics, whatever integrates them. `benchmarks/fuzz.py` runs as many as one likes."""

import pytest

from benchmarks.mechanism_checks import METHODS, examine
from benchmarks.random_mechanisms import random_structure

DRAWS = 4


@pytest.mark.parametrize(
    ("integrator", "seed", "given"),
    [
        ("hht", 9, {"planar": True, "penalty": False, "floating": False}),
        ("bdf", 7, {"planar": True, "penalty": False, "contacts": True}),
        ("dormand-prince", 2, {"planar": False, "penalty": False, "floating": True, "lossless": True}),
        ("rosenbrock-nystrom", 2, {"planar": False, "penalty": False, "stiff": True, "lossless": False}),
        ("semi-explicit", 2, {"planar": False, "penalty": True, "floating": True, "lossless": False}),
    ],
)
def test_random_mechanisms_obey_mechanics(integrator, seed, given):
    structure = random_structure(seed, **given)
    outcomes = [examine(structure, structure.draw(draw), METHODS[integrator]) for draw in range(DRAWS)]
    assert [outcome.findings for outcome in outcomes] == [[]] * DRAWS, structure
    assert [outcome.result for outcome in outcomes] == ["successful"] * DRAWS, structure
