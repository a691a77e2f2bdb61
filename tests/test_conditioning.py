"""Conditioning of the iteration matrices of Bottasso, Bauchau and Cardona (2007), and saturation of Newton's corrections."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.conditioning import condition_number

from .registry import CartesianPendulum

STEPS = (1e-4, 1e-6, 1e-8)


class Pendulum(CartesianPendulum):
    """Unit gravity; moving, and not along an axis, where rounding errors happen to vanish."""

    def __init__(self):
        super().__init__(gravity=1.0)
        self.q0 = jnp.array([np.cos(0.3), np.sin(0.3)])
        self.v0 = 0.5 * jnp.array([-np.sin(0.3), np.cos(0.3)])


def measured(integrator):
    return [mbd.conditioning(Pendulum(), integrator, h, steps=100) for h in STEPS]


@pytest.mark.parametrize(
    ("form", "scaling", "power"),
    [
        ("three-field", "none", -3),  # (13)
        ("three-field", "left", -2),  # (19)
        ("three-field", "multipliers", -1),  # (27)
        ("three-field", "full", 0),  # (30)
        ("two-field", "none", -4),  # (43)
        ("two-field", "left", -3),  # (47)
        ("two-field", "full", 0),  # (52)
    ],
)
def test_condition_number_is_a_power_of_the_step(form, scaling, power):
    found = measured(mbd.BDF(order=2, form=form, scaling=scaling, k_ave=0.0, m_ave=1.0))
    numbers = [float(c.condition_number) for c in found]
    assert np.polyfit(np.log(STEPS), np.log(numbers), 1)[0] == pytest.approx(power, abs=0.05)
    if scaling == "full":
        assert numbers[-1] == pytest.approx(numbers[0], rel=0.01)
        assert all(c.last_correction < 1e-15 for c in found)  # rounding level at every step
    else:
        assert found[-1].last_correction > 1e-11
    assert set(found[0].by_field) == ({"q", "v", "multipliers"} if form == "three-field" else {"q", "multipliers"})


def test_stabilised_form_is_scaled_as_well():
    numbers = [float(c.condition_number) for c in measured(mbd.BDF(order=2, index="stabilized-2", k_ave=0.0, m_ave=1.0))]
    assert numbers[-1] == pytest.approx(numbers[0], rel=0.01)


@pytest.mark.parametrize(("scaling", "power"), [("full", 0), ("accelerations", -2), ("positions", -4)])
def test_options_of_hht_condition_as_the_paper_says(scaling, power):
    """Negrut et al. (2005), section 2: its choice (c) does not depend on the step; (b) does as the row beta h^2 Phi_q, (a) as M / (beta h^2)
    besides."""
    numbers = [float(c.condition_number) for c in measured(mbd.HHT(scaling=scaling))]
    assert np.polyfit(np.log(STEPS), np.log(numbers), 1)[0] == pytest.approx(power, abs=0.05)
    if scaling == "full":
        assert numbers[-1] == pytest.approx(numbers[0], rel=0.01)


def test_conditioning_does_not_change_the_motion():
    end = [
        mbd.simulate(Pendulum(), 0.5, integrator=mbd.HHT(1e-8, scaling=s), step=0.01).final.q
        for s in ("full", "accelerations", "positions")
    ]
    np.testing.assert_allclose(end[1], end[0], atol=1e-10)
    np.testing.assert_allclose(end[2], end[0], atol=1e-10)


def test_models_are_welcome():
    found = mbd.conditioning(mbd.problems.pendulum(spatial=False), mbd.BDF(), 1e-5, steps=2)
    assert 1 < found.condition_number < 1e3
    assert found.last_correction < 1e-14


def test_condition_number_beyond_the_reach_of_a_singular_value_decomposition():
    """Of a well-conditioned matrix with scaled rows and columns, against the closed form of its inverse."""
    matrix = jnp.array([[2e12, 1e-9], [1e3, 3e-20]])
    determinant = 2e12 * 3e-20 - 1e-9 * 1e3
    inverse = jnp.array([[3e-20, -1e-9], [-1e3, 2e12]]) / determinant
    assert condition_number(matrix) == pytest.approx(float(jnp.linalg.norm(matrix, 2) * jnp.linalg.norm(inverse, 2)), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CartesianPendulum(), mbd.BDF(), -1.0), "h must be one positive number of seconds"),
        ((CartesianPendulum(), mbd.BDF(), 1e-3, 0), "steps must be a whole number, at least 1"),
        ((CartesianPendulum(), "bdf", 1e-3), "whose steps are implicit equations, such as HHT or BDF"),
        (("pendulum", mbd.BDF(), 1e-3), "must be an mbd.Model or an mbd.AbstractSystem"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mbd.conditioning(*arguments)
