"""What a user sees of a run on its way."""

import time

import numpy as np

_SMALLEST, _FIRST = 8, 32
"""accepted steps between two reports"""
_INTERVAL = 0.2
"""s between two reports, about"""


class ProgressBar:
    """A progress bar over simulated time, or nothing."""

    def __init__(self, wanted: bool, t0: float, t1: float):
        self.t0, self.t1, self.bar = t0, t1, None
        self.steps, self.clock = _FIRST, time.perf_counter()
        if wanted:
            from tqdm.auto import tqdm

            layout = "{desc}{percentage:3.0f}%|{bar}| {n:.4g}/{total:.4g} s [{elapsed}<{remaining}]"
            self.bar = tqdm(total=t1 - t0, bar_format=layout)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()

    def limit(self, allowed: int) -> int:
        """Steps until the next report."""
        return allowed if self.bar is None else min(allowed, self.steps)

    def show(self, t: float, largest: int) -> None:
        """At simulated time t; the next report comes after `largest` steps at the latest."""
        if self.bar is not None:
            self.bar.update(min(t, self.t1) - self.t0 - self.bar.n)
            now = time.perf_counter()
            self.steps = int(np.clip(self.steps * _INTERVAL / max(now - self.clock, 1e-3), _SMALLEST, largest))
            self.clock = now
