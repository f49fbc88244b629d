"""The coverage table: what ran, what is archived, what was left out, and the reasons from where they arise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_one_line, run_module
from machine_folder import Folder, with_rows
from made_inputs import write_inputs

from analysis import data
from analysis.tables import coverage
from contracts import read_json, read_rows, registry, write_json, write_rows
from experiments.gpu import clocks
from experiments.stages import provenance

LEGS = [leg.leg for leg in registry.legs().values()]


class Machine:
    """A copy of the archived measurements that a test may change, and their coverage."""

    def __init__(self, folder: Path, archive: Path, variants: Path) -> None:
        self.variants = variants
        self.folder, self.out = folder / "h200", folder / "coverage.csv"
        shutil.copytree(archive, self.folder, ignore=shutil.ignore_patterns("archived.json"))  # to be edited

    def keep(self, table: str, keep: Any) -> None:
        path = self.folder / f"{table}.csv"
        write_rows(path, table, filter(keep, read_rows(path, table)))

    def write(self, name: str = "h200", **changes: Any) -> None:
        """Change keys of provenance.json; `name` is the machine's."""
        for document in ("provenance", "machine"):
            path = self.folder / f"{document}.json"
            more = changes if document == "provenance" else {}
            write_json(path, document, read_json(path, document) | {"machine": name} | more)

    def command(self, **changes: Any) -> subprocess.CompletedProcess[str]:
        given = {"machine": "h200", "archived": False} | changes
        inputs = write_inputs(self.out.with_name("inputs.json"), self.folder, self.variants, **given)
        return run_module("analysis.tabulate", "--inputs", inputs, "--out", self.out.parent, "coverage")

    def cover(self, **changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
        """Rows by machine and leg, made by the command, of inputs that `changes` change."""
        done = self.command(**changes)
        assert done.returncode == 0, done.stderr
        return {(row["machine"], row["leg"]): row for row in read_rows(self.out, "coverage")}


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Path:
    """The archive as of a machine h200, with every twentieth row of its tables: enough to be counted."""
    folder = tmp_path_factory.mktemp("some") / "h200"
    shutil.copytree(archive, folder, ignore=shutil.ignore_patterns("archived.json"))
    for path in folder.glob("*.csv"):
        header, *rows = path.read_text().splitlines(keepends=True)
        path.write_text("".join([header, *rows[::20]]))
    for document in ("provenance", "machine"):
        path = folder / f"{document}.json"
        write_json(path, document, read_json(path, document) | {"machine": "h200"})
    return folder


@pytest.fixture
def machine(tmp_path: Path, some: Path, variants_csv: Path) -> Machine:
    return Machine(tmp_path, some, variants_csv)


def test_every_leg_has_a_stage_and_a_name_of_its_own() -> None:
    found = [leg for table in registry.tables().values() for leg in table.legs]
    assert len({leg.stage for leg in found}) == len({leg.leg for leg in found}) == len(found) > 8


def test_where_it_was_measured_the_legs_ran(machine: Machine) -> None:
    machine.write(date="2026-01-02")
    rows = machine.cover()
    assert [leg for _, leg in rows] == LEGS
    unlocked = rows["h200", "unlocked"]
    bench = read_rows(machine.folder / "bench.csv", "bench")
    assert (unlocked["status"], unlocked["source"], unlocked["date"]) == ("ran", "h200", "2026-01-02")
    assert unlocked["rows"] == sum(row["regime"] == "unlocked" for row in bench) > 0 and unlocked["reason"] is None
    assert rows["h200", "build"]["status"] == "ran" and rows["h200", "build"]["date"] is None
    devices = [row["device"] for row in read_rows(machine.folder / "checks.csv", "checks")]
    for leg, device in (("check on GPU", "gpu"), ("check on ptxsim", "ptxsim")):
        assert rows["h200", leg]["rows"] == devices.count(device) > 0, leg


def test_without_a_gpu_the_archive_stands_in_and_says_why(machine: Machine) -> None:
    machine.write(left_out={"locked": "not asked for"})
    own = machine.folder.with_name("no-gpu")
    own.mkdir()
    tables = {"emulated_checks": own / "emulated-checks.csv", "resources": own / "resources.csv"}
    for path, source in zip(tables.values(), ("checks", "resources"), strict=True):
        shutil.copy(machine.folder / f"{source}.csv", path)
    rows = machine.cover(archived=True, why_archived="no GPU here", tables=tables, machine="no-gpu")
    assert rows["no-gpu", "unlocked"]["status"] == "archived"
    assert (rows["no-gpu", "unlocked"]["source"], rows["no-gpu", "unlocked"]["reason"]) == ("h200", "no GPU here")
    for leg in ("build", "check on ptxsim"):
        assert (rows["no-gpu", leg]["status"], rows["no-gpu", leg]["source"]) == ("ran", "no-gpu")
        assert rows["no-gpu", leg]["reason"] is None
    if not rows["no-gpu", "locked"]["rows"]:
        assert (rows["no-gpu", "locked"]["status"], rows["no-gpu", "locked"]["reason"]) == ("left out", "not asked for")


def test_where_an_archive_is_only_drawn_its_builds_and_emulated_checks_stand_in_too(machine: Machine) -> None:
    rows = machine.cover(archived=True, why_archived="no GPU here", machine="no-gpu")
    for leg in ("build", "check on ptxsim"):
        assert (rows["no-gpu", leg]["status"], rows["no-gpu", leg]["source"]) == ("archived", "h200")
        assert rows["no-gpu", leg]["reason"] == "only drawn again; snakemake --cores 1 all makes it here"
    assert rows["no-gpu", "check on GPU"]["reason"] == "no GPU here"


@pytest.mark.parametrize(
    ("table", "stage", "leg"), [("counters", "profile", "counters"), ("bench", "bench", "unlocked")]
)
def test_a_leg_without_rows_is_left_out_with_its_reason(table: str, stage: str, leg: str, machine: Machine) -> None:
    machine.keep(table, lambda row: False)
    row = machine.cover()["h200", leg]
    assert (row["status"], row["source"], row["rows"]) == ("left out", None, 0)
    assert row["reason"] == f"no rows in {table}.csv, and no reason next to it"
    machine.write(left_out={stage: "no permission here"})
    assert machine.cover()["h200", leg]["reason"] == "no permission here"


def test_a_leg_that_ran_in_part_says_what_is_not_there(machine: Machine) -> None:
    rows = read_rows(machine.folder / "bench.csv", "bench")
    write_rows(machine.folder / "bench.csv", "bench", [*rows, rows[0] | {"regime": "locked"}])
    machine.write(left_out={"locked": "sgemm_naive, n = 4096: off"})
    row = machine.cover()["h200", "locked"]
    assert (row["status"], row["rows"], row["reason"]) == ("ran", 1, "sgemm_naive, n = 4096: off")


def test_a_table_that_has_a_target_of_its_own_names_it(machine: Machine) -> None:
    (machine.folder / "sanitizer.csv").unlink(missing_ok=True)
    row = machine.cover()["h200", "sanitizer"]
    assert row["status"] == "left out" and "snakemake --cores 1 sanitize makes it" in row["reason"]
    reason = machine.folder / "left_out.txt"
    reason.write_text("no compute-sanitizer\n")
    rows = machine.cover(left_out={"sanitizer": str(reason)})
    assert rows["h200", "sanitizer"]["reason"] == "no compute-sanitizer"
    sanitized = {"variant": "sgemm_naive", "tool": "memcheck", "launches": 3, "errors": 0, "passed": True}
    write_rows(machine.folder / "sanitizer.csv", "sanitizer", [sanitized | {"source_hash": "0"}])
    assert machine.cover()["h200", "sanitizer"]["status"] == "ran"


def test_other_archived_machines_follow(machine: Machine, tmp_path: Path, some: Path, variants_csv: Path) -> None:
    other = Machine(tmp_path / "other", some, variants_csv)
    other.write("h100", left_out={"profile": "no ncu there"})
    other.keep("counters", lambda row: False)
    rows = machine.cover(archives=[str(some), str(other.folder)])
    assert [leg for name, leg in rows if name == "h100"] == LEGS and len(rows) == 2 * len(LEGS)
    assert (rows["h100", "unlocked"]["status"], rows["h100", "unlocked"]["source"]) == ("archived", "h100")
    assert rows["h100", "counters"]["reason"] == "no ncu there"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"left_out": {"sanitiser": "x"}}, ["unknown stage 'sanitiser'", "nearest: sanitizer"]),
        ({"left_out": {"sanitizer": "/no/such"}}, ["cannot read /no/such"]),
        ({"archives": ["/no/such"]}, ["no such folder: /no/such"]),
        ({"archives": ["/tmp"]}, ["no measurements in /tmp: it has no provenance.json"]),
    ],
)
def test_a_wrong_input_is_one_line(more: dict[str, Any], words: list[str], machine: Machine) -> None:
    assert_one_line(machine.command(**more), *words)
    assert not machine.out.exists()


# ---- reasons come from where they arise ------------------------------------------------------------------------------


def test_a_reason_travels_from_the_leg_to_the_table(machine: Machine, tmp_path: Path) -> None:
    """By the commands that the pipeline runs."""
    reason, toolchain = tmp_path / "locked.txt", tmp_path / "toolchain.json"
    assert run_module("experiments.stages.try_lock", "--left-out", reason).returncode == 0
    made = read_json(machine.folder / "provenance.json", "provenance")
    write_json(toolchain, "toolchain", made["toolchain"])
    arguments = [
        "--machine-json",
        machine.folder / "machine.json",
        "--toolchain",
        toolchain,
        "--command",
        "snakemake all",
    ]
    out = machine.folder / "provenance.json"
    done = run_module("experiments.stages.provenance", *arguments, "--left-out", f"locked={reason}", "--out", out)
    assert done.returncode == 0, done.stderr
    machine.keep("bench", lambda row: row["regime"] == "unlocked")
    row = machine.cover()["h200", "locked"]
    assert (row["status"], row["reason"]) == ("left out", clocks.NOT_ASKED)


def test_reasons_of_a_stage_are_reported_once_and_three_of_them(tmp_path: Path) -> None:
    texts = ["", "no ncu", "no ncu", "a: off\nb: off", "c: off\nd: off"]
    arguments = []
    for i, text in enumerate(texts):
        (tmp_path / str(i)).write_text(text)
        arguments.append(f"{'profile' if i < 3 else 'locked'}={tmp_path / str(i)}")
    assert provenance.left_out(arguments) == {"profile": "no ncu", "locked": "a: off; b: off; c: off; and 1 more"}


def test_each_optional_table_is_a_leg_with_a_reason(tmp_path: Path, archive: Path) -> None:
    folder = Folder(tmp_path, archive, without=("agreement", "sanitizer"))
    row = {"variant": "sgemm_naive", "tool": "memcheck", "launches": 5, "errors": 0, "passed": True}
    with_rows(folder, "sanitizer", [row])
    found = {row["leg"]: row for row in coverage.own_rows("h200", coverage.Folder(folder.inputs()), {}, None)}
    assert (found["sanitizer"]["status"], found["sanitizer"]["rows"]) == ("ran", 1)
    assert found["agreement"]["status"] == "left out" and "was not made" in found["agreement"]["reason"]
    assert "snakemake --cores 1 all makes it" in found["agreement"]["reason"]


@pytest.mark.parametrize("stage", ["sanitizer", "check", "agreement"])
def test_a_reason_is_that_of_its_own_stage(stage: str) -> None:
    assert data.left_out({"left_out": {stage: "why"}}) == {stage: "why"}
