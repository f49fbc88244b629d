"""Extrapolates counts of a large launch from those of small ones.

    runs = {steps: sums of a launch with so many steps of its loop for steps in (3, 4, 5)}
    extrapolate(runs, blocks=4, to_steps=128, to_blocks=1024)

Where every block does the same, and a step costs the same each time, a sum is blocks * (a + b *
steps). Two launches give a and b; each further one must agree with their prediction. Only sums grow
so: a ratio is made of sums afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import PtxsimError

# Two counts are equal within this relative tolerance.
EXACT = 1e-9


class NotLinearError(PtxsimError):
    """Counts do not grow linearly with the number of steps."""


def extrapolate(
    runs: Mapping[int, Mapping[str, float]], blocks: int, to_steps: int, to_blocks: int
) -> dict[str, float]:
    """Sums of `to_blocks` blocks with `to_steps` steps, from launches of `blocks` blocks by their
    number of steps, three or more. A name that a launch lacks counts as 0 there.

    Raises `NotLinearError` that names the first sum that does not grow linearly.
    """
    few, more, *others = sorted(runs)
    names = dict.fromkeys(name for steps in (few, more, *others) for name in runs[steps])

    def predicted(name: str, steps: int, of_blocks: int) -> float:
        first, second = runs[few].get(name, 0.0), runs[more].get(name, 0.0)
        slope = (second - first) / (more - few) / blocks
        return of_blocks * (first / blocks - slope * few + slope * steps)

    for steps in others:
        for name in names:
            expected, counted = predicted(name, steps, blocks), runs[steps].get(name, 0.0)
            if abs(expected - counted) > EXACT * abs(counted):
                raise NotLinearError(
                    f"{name} does not grow linearly: {runs[few].get(name, 0.0):,.0f}, {runs[more].get(name, 0.0):,.0f} "
                    f"and {counted:,.0f} with {few}, {more} and {steps} steps"
                )
    return {name: predicted(name, to_steps, to_blocks) for name in names}
