"""Random mechanisms obey mechanics, whatever integrates them. `benchmarks/fuzz.py` runs as many as one likes."""

import dataclasses

import pytest

from benchmarks.mechanism_checks import METHODS, examine
from benchmarks.random_mechanisms import ROWS, random_structure

DRAWS = 4
FLOATING = {"planar": False, "penalty": False, "floating": True, "lossless": True}
JOINTED, HELD = {"penalty": False, "stiff": False, "contacts": False}, {"planar": True, "penalty": True, "lossless": False}
OTHERS = {
    **dict.fromkeys(("bdf-stabilized", "rodas4", "w-method", "adams"), (4, JOINTED)),
    **dict.fromkeys(("theta", "trapezoidal"), (4, HELD)),
    **dict.fromkeys(("verlet", "explicit-nystrom"), (9, HELD)),
    "newmark": (8, HELD),
}
"""(seed, given); with other seeds some of the draws take more steps than are allowed"""


@pytest.mark.parametrize(
    ("integrator", "seed", "given"),
    [
        ("hht", 9, {"planar": True, "penalty": False, "floating": False}),
        ("bdf", 7, {"planar": True, "penalty": False, "contacts": True}),
        ("dormand-prince", 2, FLOATING),
        ("rosenbrock-nystrom", 2, {"planar": False, "penalty": False, "stiff": True, "lossless": False}),
        ("semi-explicit", 2, {"planar": False, "penalty": True, "floating": True, "lossless": False}),
        *(pytest.param(name, *structure, marks=pytest.mark.slow) for name, structure in OTHERS.items()),
    ],
)
def test_random_mechanisms_obey_mechanics(integrator, seed, given):
    structure = random_structure(seed, **given)
    outcomes = [examine(structure, structure.draw(draw), METHODS[integrator]) for draw in range(DRAWS)]
    assert [outcome.findings for outcome in outcomes] == [[]] * DRAWS, structure
    assert [outcome.result for outcome in outcomes] == ["successful"] * DRAWS, structure


@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "seed", "draw"), [("rosenbrock-nystrom", 6144, 3), ("rodas4", 6074, 1)])
def test_forces_balance_near_a_dead_point(integrator, seed, draw):
    """Inverses of nearly singular matrices left 2.4e-5 of the largest torque, and 1.1e-7, where accelerations were not refined."""
    structure = random_structure(seed)
    assert examine(structure, structure.draw(draw), METHODS[integrator]).findings == []


def test_no_method_is_forgotten():
    assert {"hht", "bdf", "dormand-prince", "rosenbrock-nystrom", "semi-explicit", *OTHERS} == set(METHODS)


def test_all_kinds_of_joints_and_loops_are_drawn():
    structures = [random_structure(seed) for seed in range(200)]
    kinds = {joint.kind for structure in structures for joint in structure.joints}
    assert kinds == {*ROWS[False], "Gear", "RackAndPinion", "Motion"}
    assert len(kinds) == 16  # as many as the library has
    assert sum(len(structure.joints) > len(structure.points) for structure in structures) > 50
    for flag in ("planar", "floating", "lossless", "stiff", "penalty", "contacts", "driven", "parallel_axes"):
        assert 5 < sum(getattr(structure, flag) for structure in structures) < 195


def test_a_careless_run_is_found():
    """With a tolerance of a tenth: what the checks are for."""
    structure, careless = random_structure(2, **FLOATING), dataclasses.replace(METHODS["dormand-prince"], tolerance=0.1)
    outcome = examine(structure, structure.draw(0), careless)
    assert {finding.split(":")[0] for finding in outcome.findings} >= {"momentum"}, outcome
    assert outcome.result == "successful"
