"""Counts of verdicts, and which of them another rule would change; archives that disagree."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.claims import sensitivity, verdicts


def row(name: str, verdict: str, **more: Any) -> dict[str, Any]:
    base = {
        "id": name, "machine": "one", "origin": "archived: Some GPU, 2026-01-01", "worklog": "A", "about": "speed",
        "class": "claim", "counted": True, "same_as": None, "independent": False, "theirs": "2", "ours": "3",
        "unit": "x", "verdict": verdict, "kind": None, "why": "", "if_stricter": verdict,
        "if_looser": verdict, "flips": None,
    }  # fmt: skip
    return base | more


def test_only_what_another_rule_changes_is_listed_and_only_once() -> None:
    rows = pd.DataFrame(
        [
            row("a", "holds"),
            row("b", "direction only", if_looser="holds"),
            row("c", "holds", if_stricter="does not hold"),
            row("d", "direction only", if_looser="holds", counted=False),
        ]
    )
    assert list(sensitivity.changed(rows)["id"]) == ["b", "c"]


def test_counts_stand_apart_for_what_no_machine_can_change() -> None:
    rows = pd.DataFrame(
        [
            row("a", "holds"),
            row("b", "does not hold", kind="differs on this GPU", if_looser="holds"),
            row("c", "does not hold", kind="slip of the text", independent=True),
            row("d", "holds", **{"class": "definition", "counted": False}),
            row("e", "holds", same_as="a", counted=False),
        ]
    )
    found = sensitivity.counts(rows).set_index(["of", "verdict", "kind"])["claims"]
    assert found["one", "holds", ""] == 1 and found["one", "does not hold", "differs on this GPU"] == 1
    assert found["any machine", "does not hold", "slip of the text"] == 1
    assert found["any machine", "not counted: definition", ""] == 1
    assert found["any machine", "not counted: same measure as another", ""] == 1
    assert sensitivity.counts(rows).set_index(["of", "verdict", "kind"])["if_looser"]["one", "holds", ""] == 2


def test_archives_of_one_model_that_disagree_are_within_noise() -> None:
    one = [row("a", "holds"), row("b", "holds"), row("c", "direction only", kind="differs on this GPU")]
    two = [row("a", "holds", machine="two"), row("b", "direction only", machine="two"),
           row("c", "not testable here", machine="two")]  # fmt: skip
    other = [row("a", "does not hold", machine="other", origin="archived: Other GPU, 2026-01-01")]
    verdicts.across([one, two, other])
    assert [r["verdict"] for r in one] == ["holds", "within noise", "direction only"]
    assert [r["verdict"] for r in two] == ["holds", "within noise", "not testable here"]
    assert one[1]["flips"] == "one: holds, two: direction only" and one[1]["kind"] is None
    assert other[0]["verdict"] == "does not hold" and one[2]["kind"] == "differs on this GPU"
