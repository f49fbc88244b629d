"""Reports for continuous integration: JUnit's XML, a test for each kernel, and SARIF, a result for
each fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from .records import FaultRecord, LaunchRecord

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
