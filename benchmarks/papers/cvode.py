"""CVODE's variable-order BDF on a jaxmbd system: the comparator of the semi-explicit and the contact-power papers.

Needs scikit-sundae (`pip install -e ".[benchmark]"`). The Jacobian is exact, by autodiff. What it costs is a matter of accounting: FAST-JAC
counts 12 evaluations of the contacts, as the papers' semi-analytic Jacobian of rigid bodies took, SLOW-JAC one for each independent state (twice
the degrees of freedom), as differences would; CVODE itself integrates all coordinates, with Euler parameters and what is prescribed.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from sksundae.cvode import CVODE

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start
from jaxmbd.system.equations import acceleration_a, acceleration_b

FAST_JACOBIAN = 12
"""evaluations that stand for one Jacobian of a rigid-body model, in both papers"""


@dataclasses.dataclass
class Run:
    """What CVODE did."""

    times: np.ndarray
    states: np.ndarray
    """(q, v), one row a time"""
    success: bool
    message: str
    evaluations: int
    """of the right-hand side, without those for Jacobians"""
    jacobians: int
    independent: int
    """states: twice the degrees of freedom"""
    steps: np.ndarray | None = None
    """s, if the run was asked for every step"""

    @property
    def fast(self) -> int:
        return self.evaluations + FAST_JACOBIAN * self.jacobians

    @property
    def slow(self) -> int:
        return self.evaluations + self.independent * self.jacobians


def freedoms(system: mbd.AbstractSystem) -> int:
    """Independent coordinates; what a rotor holds or turns by itself is none."""
    count = system.freedoms()
    assert count is not None
    if isinstance(system, mbd.System):
        bodies = [(group.body, where) for group, _, where in system.body_slices().values()]
        count -= sum(where.stop - where.start - len(body.free) for body, where in bodies if isinstance(body, mbd.Rotor))
    return count


class FirstOrder:
    """y' = f(t, y), y = (q, v), of a system without constraints but its coordinates' own and without differential states."""

    def __init__(self, system: mbd.AbstractSystem):
        start = consistent_start(system)
        prepared = system.prepare().recall(start.memory)
        self.start = np.concatenate([start.q, start.v])
        n = start.q.shape[0]
        self.independent = 2 * freedoms(system)

        def rate(t, y):
            q, v, x = y[:n], y[n:], jnp.zeros(0)
            return jnp.concatenate([v, acceleration_a(prepared, q, v, t, x) + acceleration_b(prepared, q, v, t, x)])

        self._rate, self._jacobian = jax.jit(rate), jax.jit(jax.jacfwd(rate, argnums=1))

    def solve(self, times, rtol, atol, *, every_step: bool = False, **options) -> Run:
        """Runs over the given times; with `every_step` over the first and the last, and reports each step."""
        counts = {"rate": 0, "jacobian": 0}

        def rate(t, y, yp):
            counts["rate"] += 1
            yp[:] = np.asarray(self._rate(t, np.array(y)))

        def jacobian(t, y, yp, J):
            counts["jacobian"] += 1
            J[:] = np.asarray(self._jacobian(t, np.array(y)))

        solver = CVODE(rate, jacfn=jacobian, rtol=rtol, atol=atol, method="BDF", max_num_steps=2_000, **options)
        span = (times[0], times[-1]) if every_step else times
        found = solver.solve(np.asarray(span, dtype=float), self.start)
        steps = np.diff(found.t) if every_step else None
        return Run(found.t, found.y, bool(found.success), str(found.message), counts["rate"], counts["jacobian"], self.independent, steps)


def solution(system: mbd.AbstractSystem, run: Run) -> mbd.Solution:
    """The run as a Solution, so that the same functions read contacts from it."""
    start = consistent_start(system)
    n, rows = start.q.shape[0], run.times.shape[0]
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (rows, *leaf.shape)), start)
    states = dataclasses.replace(states, t=jnp.asarray(run.times), q=jnp.asarray(run.states[:, :n]), v=jnp.asarray(run.states[:, n:]))
    final = jax.tree.map(lambda leaf: leaf[-1], states)
    zero = jnp.zeros((), jnp.int32)
    return mbd.Solution(system, states, final, {}, mbd.RESULTS.successful, zero, jnp.zeros(0))
