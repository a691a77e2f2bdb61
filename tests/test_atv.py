"""The all-terrain vehicle with a flexible frame: its counts are the paper's, and it stands as statics say."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems.quads import AT_REST, atv_frame


def test_the_frame_has_the_modes_that_the_paper_counts():
    frame = atv_frame()
    assert frame.count == 134
    # As a separate program for the same tubes computed them.
    np.testing.assert_allclose(frame.frequencies[:6], (74.29, 81.71, 108.3, 160.08, 173.54, 194.78), rtol=1e-4)
    assert float(frame.frequencies[-1]) == pytest.approx(12716.5, rel=1e-3)
    assert float(frame.mass) == pytest.approx(16.993 + 16.0, rel=1e-4)


@pytest.mark.slow
def test_it_stands_on_its_posts_and_is_shaken():
    model = mbd.problems.atv(modes=12)
    system = model.build()
    assert len(model.joints) == 43
    assert not system.redundant
    assert (len(system.coordinate_lengths()), len(system.row_lengths()), system.freedoms()) == (203 + 12, 173, 30 + 12)
    rest = mbd.equilibrium(system, held=AT_REST)
    run = mbd.simulate(system, 0.05, initial=rest, max_step=5e-4)
    weights = [float(run.contact(f"tyre_{corner}").normal_force[0]) for corner in ("FL", "FR", "RL", "RR")]
    np.testing.assert_allclose(weights, (893.75, 893.75, 824.55, 824.55), rtol=3e-3)  # by levers
    assert sum(weights) == pytest.approx(350.32 * 9.81, rel=1e-4)
    assert run.message.startswith("the run reached its end")
    assert len(run.hot_spots("frame", 10)) == 10
