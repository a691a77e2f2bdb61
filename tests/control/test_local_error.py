"""The elementary step-size controller."""

from types import SimpleNamespace

import jax.numpy as jnp
import pytest

from jaxmbd.control import LocalError


def adapt(error, converged=True, after_rejection=False, ratio=None, **options):
    info = SimpleNamespace(error=jnp.asarray(error), converged=jnp.asarray(converged), ratio=ratio)
    decision, rejected = LocalError(**options).adapt(info, 2, jnp.asarray(0.1), jnp.asarray(after_rejection))
    return bool(decision.accept), float(decision.next_step), bool(rejected)


@pytest.mark.parametrize(
    ("error", "accepted", "step"),
    [
        (0.125, True, 0.1 * 0.9 * 2.0),  # error^(-1/3)
        (1e-9, True, 0.1 * 2.0),  # growth limit
        (0.0, True, 0.1 * 2.0),
        (8.0, False, 0.1 * 0.9 / 2.0),
        (1e9, False, 0.1 * 0.2),  # shrink limit
    ],
)
def test_step_follows_the_error(error, accepted, step):
    accept, following, rejected = adapt(error)
    assert accept is accepted
    assert rejected is not accepted
    assert following == pytest.approx(step)


def test_no_growth_right_after_a_rejection():
    assert adapt(1e-6, after_rejection=True)[1] == pytest.approx(0.1)


def test_an_integrators_wish_counts_after_accepted_steps_only():
    assert adapt(0.5, ratio=1.3)[1] == pytest.approx(0.13)
    assert adapt(0.5, ratio=7.0)[1] == pytest.approx(0.2)  # growth limit
    assert adapt(8.0, ratio=1.3)[1] == pytest.approx(0.045)


@pytest.mark.parametrize(("error", "converged"), [(0.5, False), (jnp.nan, True), (jnp.inf, True)])
def test_a_failed_step_is_repeated_smaller(error, converged):
    accept, following, _ = adapt(error, converged)
    assert not accept
    assert following == pytest.approx(0.025)


@pytest.mark.parametrize("options", [{"safety": 1.5}, {"growth": 0.5}, {"shrink": -1.0}])
def test_impossible_factors_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} of LocalError"):
        LocalError(**options)
