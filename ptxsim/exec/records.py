"""The records of a run, its launches, faults and notes, as lines, as a table and as JSON, and for
continuous integration as JUnit's XML, a test for each kernel, and SARIF, a result for each fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from xml.etree import ElementTree

from ..count.counters import named
from ..ptx.sizes import Dim3


@dataclass(frozen=True)
class FaultRecord:
    """A fault of a launch, or why the launch failed as a whole (then without kind and place)."""

    text: str
    kind: str = ""
    # `where` is the line of the fault, and the lines that call it.
    where: str = ""

    @property
    def location(self) -> tuple[str, int] | None:
        """Return its file and line, where the program has line information."""
        file, _, line = self.where.partition(", ")[0].rpartition(":")
        return (file, int(line)) if line.isdigit() else None


@dataclass
class LaunchRecord:
    """One launch, as the emulator saw it."""

    process: int
    # Launches of a process are numbered from 1.
    number: int
    # The kernel has its mangled name.
    kernel: str
    # The title is as in the source.
    title: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    # `shared_bytes` counts dynamic shared memory alone.
    shared_bytes: int
    # The emulation took this long.
    seconds: float
    # The time is on the device's clock, which is made up: see `machine.device`.
    device_ns: int
    # `registers` counts the registers of a thread; None where there is no machine code.
    registers: int | None
    # `profiled` is true within a profiler's range, as of cuProfilerStart.
    profiled: bool
    # `checked` is true where the launch was checked and counted.
    checked: bool
    # `left_out` is true where the results were there already, so that it was not run: see
    # `repeats`.
    left_out: bool
    blocks_run: int
    # `sampled` is true where only some of the grid's blocks were run.
    sampled: bool
    faults: list[FaultRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # `sums` holds counters that add up over launches; None where nothing was counted.
    sums: dict[str, float] | None = None
    # `lines` holds lines of the source, with what their accesses cost.
    lines: list[dict[str, Any]] = field(default_factory=list)

    def line(self) -> str:
        """Return the line that is printed while the program runs."""
        what = f"{short(self.title)}: grid {size_text(self.grid)}, block {size_text(self.block)}"
        if self.cluster != (1, 1, 1):
            what += f", cluster {size_text(self.cluster)}"
        what += f": {self.seconds:.2f} s"
        if self.left_out:
            what += ", not run again"
        if self.sampled:
            what += f", {self.blocks_run} of its blocks"
        if self.faults:
            what += f", {counted(len(self.faults), 'fault')}"
        return what

    def json(self) -> dict[str, Any]:
        record = asdict(self)
        # ncu has the name alone.
        record["function"] = self.title.partition("<")[0].rpartition("::")[2]
        record["faults"] = [fault.text for fault in self.faults]
        record["counters"] = None if self.sums is None else named(self.sums)
        del record["sums"]
        return record


def load(record: Mapping[str, Any]) -> LaunchRecord:
    """Return a launch as the emulator wrote it down."""
    content = {name: value for name, value in record.items() if name != "kind"}
    for name in ("grid", "block", "cluster"):
        content[name] = tuple(content[name])
    content["faults"] = [FaultRecord(**fault) for fault in content["faults"]]
    return LaunchRecord(**content)


def size_text(size: Dim3) -> str:
    """Return a size without trailing ones: "(16, 16)" for (16, 16, 1), "16" for (16, 1, 1)."""
    parts = list(size)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return str(parts[0]) if len(parts) == 1 else f"({', '.join(map(str, parts))})"


def counted(number: int, what: str, several: str = "") -> str:
    """Return a number with its noun, as in "3 faults" or "1 launch"."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


# A name of more characters is shortened.
LONGEST = 60
# Each column of the table adds these counters, or subtracts them where there is a minus.
COLUMNS: dict[str, tuple[str, ...]] = {
    "shared wavefronts": ("memory_l1_wavefronts_shared",),
    # The conflicts of cp.async are included.
    "conflicts": ("memory_l1_wavefronts_shared", "-memory_l1_wavefronts_shared_ideal"),
    "global sectors": ("memory_l2_theoretical_sectors_global",),
    "TMA sectors": ("l2_sectors_bulk_ld.sum", "l2_sectors_bulk_st.sum"),
}
# These columns are ratios.
PER_SECTOR = {
    "B/sector ld": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "B/sector st": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
}


def table(records: list[LaunchRecord]) -> list[str]:
    """Return the table of counters of each kernel, over all its launches."""
    kernels: dict[str, list[LaunchRecord]] = {}
    for record in records:
        kernels.setdefault(record.title, []).append(record)
    rows = [["kernel", "launches", *COLUMNS, *PER_SECTOR]]
    for title, launches in kernels.items():
        added: dict[str, float] = {}
        of = [record for record in launches if record.sums is not None]
        for record in of:
            for name, value in (record.sums or {}).items():
                added[name] = added.get(name, 0) + value
        if not of:
            rows.append([short(title), str(len(launches)), *["-"] * (len(rows[0]) - 2)])
            continue
        totals = named(added)
        number = f"{len(of)} of {len(launches)}" if len(of) < len(launches) else str(len(launches))
        sums = [
            f"{sum(_signed(totals, name) for name in names):,.0f}" for names in COLUMNS.values()
        ]
        rows.append(
            [short(title), number, *sums, *[_ratio(totals, name) for name in PER_SECTOR.values()]]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]


def _signed(totals: Mapping[str, float], name: str) -> float:
    return -totals.get(name[1:], 0) if name.startswith("-") else totals.get(name, 0)


def _ratio(totals: Mapping[str, float], name: str) -> str:
    return f"{totals[name]:.1f}" if totals.get(name) else "-"


def short(title: str) -> str:
    """Return a kernel's name for a line; of a long one neither template arguments nor the first
    namespaces.
    """
    if len(title) > LONGEST:
        title = title.replace("(anonymous namespace)", "").partition("<")[0] + "<...>"
    return title if len(title) <= LONGEST else "..." + title[3 - LONGEST :]


# for continuous integration

# `HOST_LINE` finds the line of host code in a message.
HOST_LINE = re.compile(r" at ([\w.+-]+):(\d+)")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def junit(launches: Sequence[LaunchRecord], errors: Sequence[str]) -> str:
    """Return JUnit's XML: a test case for each kernel, which fails with its faults; one more for failed calls
    and races of the host.
    """
    suite = ElementTree.Element("testsuite", name="ptxsim")
    failed = 0
    for title in dict.fromkeys(launch.title for launch in launches):
        of = [launch for launch in launches if launch.title == title]
        seconds = sum(launch.seconds for launch in of)
        case = ElementTree.SubElement(
            suite, "testcase", classname="kernel", name=title, time=f"{seconds:.3f}"
        )
        if not any(launch.checked for launch in of):
            ElementTree.SubElement(case, "skipped", message="not checked")
        failed += _fail(case, [fault.text for launch in of for fault in launch.faults])
    host = ElementTree.SubElement(suite, "testcase", classname="host", name="calls", time="0")
    failed += _fail(host, errors)
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(failed))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _fail(case: ElementTree.Element, texts: Sequence[str]) -> bool:
    if texts:
        ElementTree.SubElement(case, "failure", message=texts[0]).text = "\n".join(texts)
    return bool(texts)


def sarif(launches: Sequence[LaunchRecord], errors: Sequence[str]) -> str:
    """Return SARIF: a result for each fault, with its kind as the rule, and its location."""
    faults = [fault for launch in launches for fault in launch.faults]
    by_text = {fault.text: fault for fault in (*faults, *map(FaultRecord, errors))}
    results = [_result(fault) for fault in by_text.values()]
    rules = [{"id": rule} for rule in sorted({str(result["ruleId"]) for result in results})]
    driver = {"name": "ptxsim", "rules": rules}
    return json.dumps(
        {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        }
    )


def _result(fault: FaultRecord) -> dict[str, object]:
    location = fault.location
    if not fault.kind and (match := HOST_LINE.search(fault.text)):
        location = match[1], int(match[2])
    result: dict[str, object] = {
        "ruleId": fault.kind or "host",
        "level": "error",
        "message": {"text": fault.text},
    }
    if location is not None:
        file, line = location
        physical = {"artifactLocation": {"uri": file}, "region": {"startLine": line}}
        result["locations"] = [{"physicalLocation": physical}]
    return result
