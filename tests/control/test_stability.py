"""Steps by the stability limit of the explicit forces."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.control import Stability

from ..registry import Oscillator


def adapt(stiffness, h=0.1, unstable_before=False, converged=True, **options):
    info = SimpleNamespace(stiffness=jnp.asarray(stiffness), converged=jnp.asarray(converged))
    decision, repeated = Stability(**options).adapt(info, 2, jnp.asarray(h), jnp.asarray(unstable_before))
    return bool(decision.accept), float(decision.next_step), bool(repeated)


def test_step_follows_the_stiffness():
    assert adapt(25.0, tolerance=0.16) == (True, pytest.approx(0.08), False)
    assert adapt(1e-6, growth=1.5) == (True, pytest.approx(0.15), False)  # growth limit
    assert adapt(0.0, growth=1.5) == (True, pytest.approx(0.15), False)
    assert adapt(900.0, tolerance=0.09) == (False, pytest.approx(0.01), True)  # h^2 sigma = 9 > 4
    assert adapt(900.0, tolerance=0.09, unstable_before=True)[0]  # once only
    assert adapt(1.0, converged=False, failure=0.25) == (False, pytest.approx(0.025), False)


@pytest.mark.parametrize("estimate", ["consecutive", "printed"])
def test_oscillator_is_stepped_at_the_wanted_part_of_its_limit(estimate):
    """Both estimates find k / m = 20 1/s^2 of a linear spring exactly: h = sqrt(tolerance / 20)."""
    method = mbd.SemiExplicit(estimate=estimate)
    run = mbd.simulate(Oscillator(40.0), 3.0, integrator=method, controller=Stability(0.05), first_step=0.01)
    np.testing.assert_allclose(run.steps[10:-1], np.sqrt(0.05 / 20.0), rtol=1e-6)
    each = 2 if estimate == "printed" else 1
    assert run.stats["a_evaluations"] == each * (run.stats["steps"] + run.stats["rejected"])


def test_what_does_not_estimate_is_refused():
    with pytest.raises(ValueError, match=r"cannot control Verlet.*mbd\.SemiExplicit"):
        mbd.simulate(Oscillator(), 1.0, integrator=mbd.Verlet(), controller=Stability())
    with pytest.raises(ValueError, match=r"tolerance of Stability must lie in \(0, 4\]"):
        Stability(5.0)
