"""Steps by the stability limit of the explicit forces."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.control import Stability

from ..registry import Oscillator


def adapt(stiffness, h=0.1, unstable_before=False, converged=True, limit=4.0, **options):
    info = SimpleNamespace(stiffness=jnp.asarray(stiffness), stiffness_limit=jnp.asarray(limit), converged=jnp.asarray(converged))
    decision, repeated = Stability(**options).adapt(info, 2, jnp.asarray(h), jnp.asarray(unstable_before))
    return bool(decision.accept), float(decision.next_step), bool(repeated)


def test_step_follows_the_stiffness():
    assert adapt(25.0, tolerance=0.16) == (True, pytest.approx(0.08), False)
    assert adapt(1e-6, growth=1.5) == (True, pytest.approx(0.15), False)  # growth limit
    assert adapt(0.0, growth=1.5) == (True, pytest.approx(0.15), False)
    assert adapt(900.0, tolerance=0.09) == (False, pytest.approx(0.01), True)  # h^2 sigma = 9 > 4
    assert adapt(900.0, tolerance=0.09, unstable_before=True)[0]  # once only
    assert adapt(1.0, converged=False, failure=0.25) == (False, pytest.approx(0.025), False)
    assert adapt(300.0, tolerance=0.09)[0]
    assert not adapt(300.0, tolerance=0.09, limit=2.0)[0]  # h^2 sigma = 3
    assert not adapt(1.0, limit=np.nan)[0]


def test_the_limit_follows_from_alpha():
    """Theorem 3 without damping: 2 / alpha; with alpha = 1, h^2 k = 2.6 has a root of modulus 2.05."""
    assert [float(mbd.SemiExplicit(alpha).stiffness_limit()) for alpha in (0.5, 0.8, 1.0)] == [4.0, 2.5, 2.0]
    method, stiffness = mbd.SemiExplicit(1.0), 20.0
    assert method.amplification(1.0, 2.6, 0.0) == pytest.approx(2.05, abs=0.005)
    # A first step at h^2 sigma = 2.6 cannot be judged, the second one is: and repeated with one that fits.
    run = mbd.simulate(Oscillator(2 * stiffness), 3.0, integrator=method, controller=Stability(1.0), first_step=np.sqrt(2.6 / stiffness))
    assert run.stats["rejected"] == 1
    np.testing.assert_allclose(run.steps[1:-1], np.sqrt(1.0 / stiffness), rtol=1e-6)


def test_what_cannot_be_stable_is_refused():
    def run(alpha, tolerance):
        mbd.simulate(Oscillator(), 1.0, integrator=mbd.SemiExplicit(alpha), controller=Stability(tolerance))

    with pytest.raises(ValueError, match=r"cannot control SemiExplicit with alpha < 1/2.*Use alpha >= 1/2"):
        run(0.4, 0.1)
    with pytest.raises(ValueError, match=r"tolerance of Stability must be at most 2 / alpha = 2, got 3"):
        run(1.0, 3.0)


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
