"""The path that only a GPU walks, walked on the emulated one: see `rehearse`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import rehearse
from rehearse import Rehearsal

WRONG = ("sum[", "sum[")  # set below


@pytest.fixture(scope="module")
def rehearsal(once: Callable[..., Path]) -> Rehearsal:
    """A rehearsal that passed, step by step; a test that edits it takes its edits back."""

    def fill(folder: Path) -> None:
        made = rehearse.prepare(folder, rehearse.EXPERIMENTS, rehearse.VARIANTS, 128)
        for name, step in made.steps.items():
            done = step()
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    return Rehearsal(once("rehearsal", fill), rehearse.EXPERIMENTS, rehearse.VARIANTS)


def test_each_variant_has_its_windows_checks_and_counters(rehearsal: Rehearsal) -> None:
    assert rehearsal.amiss() == []
