"""The explorer's page, made by its command in a folder, and the data that it holds."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from helpers import run_module
from made_inputs import write_inputs

from analysis.explorer.content import content
from analysis.inputs import Inputs
from contracts import write_json

PICTURE = "padded_rows"
ACCESS = {
    "variant": "sgemm_blocktile_2d_padded", "label": "blocktile_2d_padded", "says": "reads of A", "file": "sgemm/a.cu",
    "line": 7, "source": "a[i]", "instruction": "ld.shared.f32 %f1, [%r1];", "kind": "ld", "bits": 32, "wavefronts": 1,
    "ideal": 1, "summary": "load, 32-bit, no conflict",
}  # fmt: skip


def _inputs(folder: Path, archive: Path, variants: Path, **changes: Any) -> Path:
    """inputs.json of a machine's tables, next to a bank picture."""
    write_json(
        folder / f"banks_{PICTURE}.json", "bank_picture", {"title": "Rows, padded", "text": "?", "accesses": [ACCESS]}
    )
    (folder / f"banks_{PICTURE}.svg").write_text(
        '<?xml version="1.0"?>\n<svg viewBox="0 0 9 9"><title>Rows</title></svg>'
    )
    return write_inputs(folder / "inputs.json", archive, variants, **changes)


def make(folder: Path, archive: Path, variants: Path, **changes: Any) -> Path:
    """The page in a folder, by the command, of a machine's tables and a bank picture."""
    inputs = _inputs(folder, archive, variants, **changes)
    out = folder / "explorer.html"
    tables = ("--tables", folder / "tables")
    done = run_module("analysis.explorer", "--inputs", inputs, *tables, "--figures", folder, "--out", out, PICTURE)
    assert done.returncode == 0, done.stderr
    return out


def held(folder: Path, archive: Path, variants: Path, **changes: Any) -> dict[str, Any]:
    """The data that such a page holds, without the page."""
    inputs = Inputs.read(_inputs(folder, archive, variants, **changes), folder / "tables")
    found: dict[str, Any] = json.loads(json.dumps(content(inputs, {PICTURE: folder / f"banks_{PICTURE}.svg"})))
    return found


def data_of(page: Path) -> dict[str, Any]:
    """The data that a page holds, its compressed parts included, as `content` gives it."""
    text = page.read_text()
    found: dict[str, Any] = json.loads(
        text.partition('<script id="data" type="application/json">')[2].partition("</script>")[0]
    )
    compressed = re.findall(r'<script type="application/gzip" id="part-(\w+)">(.*?)</script>', text)
    parts = {name: json.loads(gzip.decompress(base64.b64decode(part))) for name, part in compressed}
    for number, machine in enumerate(found["machines"]):
        machine |= parts[f"machine{number}"]
    found["claims"] = [claim for number in range(len(found["claims"])) for claim in parts[f"claims{number}"]]
    return found | {name: parts[name] for name in ("sources", "figures", "pictures")}
