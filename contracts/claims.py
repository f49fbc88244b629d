"""The claims of worklogs and of this project, their recorded verdicts, and the report table of
both.
"""

from __future__ import annotations

from typing import Literal

from pydantic import RootModel

from contracts.model import Document, Row, column, model, optional


class Entry(Document):
    """An entry of a claims.yaml: what a text says, and the comparison that tests it."""

    id: str = column(
        "unique in its folder; FOLDER/ID everywhere else", pattern="^[a-z0-9][a-z0-9-]*$"
    )
    line: int | None = optional("of the worklog's text, from 1; not of our own kernels", ge=1)
    quote: str | None = optional("the text's own words on that line", min_length=1)
    claim: str = column("in our words, one sentence", min_length=1)
    test: str | None = optional("a comparison that analysis/numbers.py evaluates", min_length=1)
    untestable: str | None = optional(
        "in place of test: why nothing here can decide it", min_length=1
    )
    kind: Literal["anywhere", "mechanism"] = column(
        "anywhere: arithmetic, compiler, emulator, one verdict; mechanism: a verdict for each GPU",
        default="mechanism",
    )
    slip: bool = column(
        "the text contradicts its own numbers, arithmetic or a documented rule", default=False
    )
    remark: str | None = optional("what explains the verdict; {EXPRESSION} is filled in")


@model("claims")
class Entries(RootModel[list[Entry]]):
    """paper/worklogs/NAME/claims.yaml, and paper/claims.yaml for our own kernels."""


Verdict = Literal["holds", "does not hold", "within noise", "not measured", "not testable"]


@model("verdicts")
class RecordedVerdict(Row):
    """data/GPU/verdicts.csv: the verdict of each claim, as `python -m analysis claims --record`
    wrote it.
    """

    KEY = ("id",)
    id: str = column("FOLDER/ID")
    verdict: Verdict
    ours: str | None = optional("the value then, with its interval")
    rule_hash: str = column("of test and quotation: a record of another question does not count")


@model("claims_table")
class TableRow(Row):
    """results/tables/claims.csv: one row for each claim and GPU."""

    KEY = ("gpu", "worklog", "id")
    gpu: str = column("of the results folder or archive; any: the test reads no measurement")
    worklog: str = column("its folder; ours: of this project's own kernels")
    id: str = column("unique in its worklog")
    line: int | None = optional("of the worklog's text, from 1")
    quote: str | None = optional("its words on that line")
    claim: str
    kind: Literal["anywhere", "mechanism", "untestable"] = column(
        "anywhere: arithmetic, compiler, emulator; mechanism: measured on a GPU"
    )
    verdict: Verdict
    ours: str | None = optional("the value that the test compares, with its interval")
    words: str | None = optional("the comparison with its values, or why there is none")
    remark: str | None = None
    test: str | None = None
    slip: bool
    rule_hash: str = column("of test and quotation")
    note: str | None = optional(
        "what a reader has to know of all numbers of this GPU, as of a rehearsal"
    )
