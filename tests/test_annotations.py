"""Fields of Modules are what their annotations say: as a person makes elements, stacked in a system, and within a run.

`conftest.py` has calls and generated constructors checked while all other tests run; constructors that are written by hand are looked at here.
"""

import typing

import equinox as eqx
import jaxtyping
import pytest
from beartype.door import is_bearable

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH

PROBLEMS = {
    "double-pendulum": mbd.problems.double_pendulum,
    "slider-crank": mbd.problems.slider_crank,
    "stiff-impact": mbd.problems.stiff_impact,
    "bouncing-ball": mbd.problems.bouncing_ball,
    "box-on-plane": mbd.problems.box_on_plane,
    "spinning-top": lambda: SMOOTH["spinning-top"].model(),
}
METHODS = (
    mbd.HHT(),
    mbd.BDF(),
    mbd.RosenbrockNystrom(),
    mbd.WMethod(),
    mbd.DormandPrince(),
    mbd.AdamsPECE(),
    mbd.SemiExplicit(),
    mbd.Verlet(),
)


def modules(tree):
    """All in a tree, itself among them."""
    if isinstance(tree, eqx.Module):
        yield tree
        tree = list(vars(tree).values())
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        for part in tree:
            yield from modules(part)


def false_fields(tree):
    """What each should be and is not."""
    found = []
    for module in modules(tree):
        hints = {name: hint for name, hint in typing.get_type_hints(type(module), include_extras=True).items() if name in vars(module)}
        with jaxtyping.jaxtyped("context"):  # letters mean the same in all fields of a Module
            found += [
                f"{type(module).__name__}.{name}: {getattr(module, name)!r} is no {hint}"
                for name, hint in hints.items()
                if type(module).__module__.startswith("jaxmbd") and not is_bearable(getattr(module, name), hint)
            ]
    return sorted(set(found))


@pytest.mark.parametrize("name", PROBLEMS)
def test_elements_and_systems(name):
    model = PROBLEMS[name]()
    assert false_fields([*model.bodies, *model.joints, *model.forces]) == []
    assert false_fields(model.build()) == []


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_integrators(method):
    assert false_fields([method, method.default_controller()]) == []


def test_a_solution():
    """Its rows are numpy's."""
    assert false_fields(mbd.simulate(mbd.problems.double_pendulum().build(), 0.01, integrator=mbd.HHT(1e-3))) == []
