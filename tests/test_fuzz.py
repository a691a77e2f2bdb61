"""Random mechanisms obey mechanics, whatever integrates them. `benchmarks/fuzz.py` runs as many as one likes."""

import dataclasses

import pytest

from benchmarks.mechanism_checks import METHODS, examine
from benchmarks.random_mechanisms import random_structure

DRAWS = 4
FLOATING = {"planar": False, "penalty": False, "floating": True, "lossless": True}


@pytest.mark.parametrize(
    ("integrator", "seed", "given"),
    [
        ("hht", 9, {"planar": True, "penalty": False, "floating": False}),
        ("bdf", 7, {"planar": True, "penalty": False, "contacts": True}),
        ("dormand-prince", 2, FLOATING),
        ("rosenbrock-nystrom", 2, {"planar": False, "penalty": False, "stiff": True, "lossless": False}),
        ("semi-explicit", 2, {"planar": False, "penalty": True, "floating": True, "lossless": False}),
    ],
)
def test_random_mechanisms_obey_mechanics(integrator, seed, given):
    structure = random_structure(seed, **given)
    outcomes = [examine(structure, structure.draw(draw), METHODS[integrator]) for draw in range(DRAWS)]
    assert [outcome.findings for outcome in outcomes] == [[]] * DRAWS, structure
    assert [outcome.result for outcome in outcomes] == ["successful"] * DRAWS, structure


def test_a_careless_run_is_found():
    """With a tolerance of a tenth: what the checks are for."""
    structure, careless = random_structure(2, **FLOATING), dataclasses.replace(METHODS["dormand-prince"], tolerance=0.1)
    outcome = examine(structure, structure.draw(0), careless)
    assert {finding.split(":")[0] for finding in outcome.findings} >= {"momentum"}, outcome
    assert outcome.result == "successful"
