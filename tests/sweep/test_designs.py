"""Which runs a sweep makes, and what it says of those that cannot be."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.sweep.designs import read_design, spread

from .mechanism import system

BOTH = {"spring.stiffness": [100.0, 200.0, 300.0], "mass.mass": [1.0, 2.0]}
BOUNDS = {"spring.stiffness": (10.0, 1000.0), "mass.mass": (1.0, 2.0)}


@pytest.fixture(scope="module")
def mechanism():
    return system()


def test_a_grid_has_all_combinations_and_the_first_parameter_varies_slowest(mechanism):
    table = read_design(mechanism, BOTH, "grid")
    assert table.dimensions == {"spring.stiffness": 3, "mass.mass": 2}
    np.testing.assert_array_equal(table.columns["spring.stiffness"], [100, 100, 200, 200, 300, 300])
    np.testing.assert_array_equal(table.columns["mass.mass"], [1, 2, 1, 2, 1, 2])


def test_tables_of_all_kinds_mean_the_same(mechanism):
    columns = {"spring.stiffness": [100.0, 200.0], "mass.mass": [1.0, 2.0]}
    tables = [
        read_design(mechanism, columns, "zip"),
        read_design(mechanism, None, columns),
        read_design(mechanism, ["spring.stiffness", "mass.mass"], {**columns, "note": ["a", "b"]}),
        read_design(mechanism, ["spring.stiffness", "mass.mass"], [[100, 1], [200, 2]]),
    ]
    for table in tables:
        assert table.dimensions == {"run": 2}
        for name, values in columns.items():
            np.testing.assert_array_equal(table.columns[name], values)


def test_vectors_have_a_row_for_each_run(mechanism):
    assert read_design(mechanism, {"mass.position": [[1, 0], [1, 0.1], [1, 0.2]]}, "zip").columns["mass.position"].shape == (3, 2)


def test_a_star_gives_several_parameters_the_same_value(mechanism):
    two = mbd.Model(
        [mbd.PointMass("mass", 1.0, position=(1.0, 0.0))],
        [],
        [
            mbd.SpringDamper(f"spring[{place}]", mbd.ground, "mass", (place, 0), (1, 0), stiffness=100.0, free_length=1.0)
            for place in (0, 2)
        ],
    ).build()
    table = read_design(two, {"spring*.stiffness": [1.0, 2.0], "mass.mass": [3.0]}, "grid")
    assert table.dimensions == {"spring*.stiffness": 2, "mass.mass": 1}
    changed = two.set(spread(two, {name: values[1] for name, values in table.columns.items()}))
    assert [float(changed.get(f"spring[{place}].stiffness")) for place in (0, 2)] == [2.0, 2.0]
    for given, message in (
        ({"spring*.stifness": [1.0]}, r"unknown parameter 'spring\*.stifness'. Did you mean 'spring\[.\].stiffness'"),
        ({"spring*": [1.0]}, "which are not of one kind"),
        ({"spring*.stiffness": [1.0], "spring[2].stiffness": [2.0]}, "another name of a parameter that 'spring\\*.stiffness' gives too"),
        ({"spring*.stiffness": [1.0, -1.0]}, "run 1 of the sweep, spring.*= -1.*must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            read_design(two, given, "grid")


@pytest.mark.parametrize("kind", [mbd.LatinHypercube, mbd.Sobol])
def test_samples_fill_their_box_evenly_and_are_the_same_for_a_seed(mechanism, kind):
    stiffness, mass = read_design(mechanism, BOUNDS, kind(16, log=("spring.stiffness",))).columns.values()
    for unit in (np.log10(stiffness / 10) / 2, mass - 1):
        assert sorted(np.floor(16 * unit)) == list(range(16))  # one in every sixteenth; of Sobol's too, for 16 is a power of two
    again = read_design(mechanism, BOUNDS, kind(16, log=("spring.stiffness",))).columns
    np.testing.assert_array_equal(again["mass.mass"], mass)
    other = read_design(mechanism, BOUNDS, kind(16, seed=1)).columns
    assert not np.array_equal(other["mass.mass"], mass)


@pytest.mark.parametrize(
    ("parameters", "design", "message"),
    [
        ({"spring.stifness": [1.0]}, "grid", "unknown parameter 'spring.stifness'. Did you mean 'spring.stiffness'"),
        (BOTH, "zip", "different lengths: 'spring.stiffness' has 3, 'mass.mass' has 2"),
        (BOTH, "gird", "unknown design 'gird'. Did you mean 'grid'"),
        (
            {"spring.stiffness": [1.0, -3.0]},
            "grid",
            "run 1 of the sweep, spring.stiffness = -3.*stiffness of force 'spring' must not be negative",
        ),
        ({"mass.mass": [1.0, np.nan, 0.0]}, "grid", r"run 1 of the sweep, mass.mass = nan.*positive.*\(1 more runs have such values\)"),
        ({"mass.mass": 1.0}, "grid", "'mass.mass' must have one number for each run"),
        ({"mass.mass": ["heavy"]}, "grid", "the values of 'mass.mass' must be numbers"),
        ({"mass.mass": []}, "grid", "has no runs"),
        ({"mass.mass": [1.0, 1.0]}, "grid", "'mass.mass' has a value twice"),
        ({"mass.position": [[1.0, 0.0]]}, "grid", "use design='zip'"),
        ({}, "grid", "needs a parameter to vary"),
        (["mass.mass"], "grid", "parameters must be a dictionary"),
        (["mass.mass"], [[1.0, 2.0]], "one row a run and 1 columns"),
        (["mass.mss"], {"mass.mass": [1.0]}, "unknown column 'mass.mss'. Did you mean 'mass.mass'"),
        ({"mass.mass": (2.0, 1.0)}, mbd.Sobol(4), "low < high"),
        ({"mass.mass": (1.0, 2.0)}, mbd.LatinHypercube(0), "at least 1"),
        ({"mass.mass": (1.0, 2.0)}, mbd.LatinHypercube(4, log=("mass.m",)), "Did you mean 'mass.mass'"),
        ({"mass.position": (1.0, 2.0)}, mbd.LatinHypercube(4), "must have an array of shape"),
    ],
)
def test_what_cannot_be_is_told(mechanism, parameters, design, message):
    with pytest.raises(ValueError, match=message):
        read_design(mechanism, parameters, design)
