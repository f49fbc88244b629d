"""A rung that is added without a GPU, word for word as docs/add-a-kernel.md says, is "not measured"
and breaks nothing.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from helpers import ROOT, dict_rows, run_module, snakemake

from contracts.rows import Variants
from kernels import catalogue

# A user may have a kernel of the document's name already.
WORD = "mine" if "sgemm_mine" not in catalogue.load() else "mine_of_the_test"
NAME = f"sgemm_{WORD}"
TEXT = re.sub(r"\bmine\b|(?<=sgemm_)mine\b", WORD, (ROOT / "docs/add-a-kernel.md").read_text())
TEXT = TEXT.partition("\n## ")[0]
STEPS = [textwrap.dedent("   " + step) for step in re.split(r"^\d\. ", TEXT, flags=re.M)[1:]]
COMMANDS = [re.findall(r"^    ((?:sed|python|make|snakemake) .*)$", step, re.M) for step in STEPS]
BLOCKS = [re.findall(r"^```yaml\n(.*?)^```$", step, re.M | re.S) for step in STEPS]


def insert(path: Path, block: str, indent: str = "  ") -> None:
    """Put a block of the document below the line `variants:` of a file."""
    text = path.read_text()
    assert text.count("\nvariants:\n") == 1
    path.write_text(text.replace("\nvariants:\n", f"\nvariants:\n{textwrap.indent(block, indent)}"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project after steps 1 to 3 of the document; folders that they leave
    alone are links.
    """
    folder = tmp_path_factory.mktemp("tree")
    copied = ("kernels", "experiments", "workflow")
    for path in ROOT.iterdir():
        if path.name in copied:
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, folder / path.name, ignore=ignore)
        elif path.name[0] != "." and path.name not in ("tests", "results"):
            (folder / path.name).symlink_to(path)
    ((copy, _), _, _, _), (_, (entry,), (variant,), _) = COMMANDS, BLOCKS
    subprocess.run(copy, shell=True, cwd=folder, check=True)
    insert(folder / "kernels" / "catalogue.yaml", entry)
    insert(folder / "experiments" / "sgemm_ladder.yaml", variant)
    return folder


def run(tree: Path, module: str, *options: object) -> str:
    """Return what a command of the project prints in `tree`."""
    done = run_module(module, *options, cwd=tree)
    assert done.returncode == 0, f"{module}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_documented_commands_try_the_kernel(tree: Path) -> None:
    _, by_file = COMMANDS[0]
    (by_name,) = COMMANDS[1]
    *module, source, option, like, watch = shlex.split(by_file)
    assert (module, watch) == (["python", "-m", "experiments.try_kernel"], "--watch")
    fast = ("--size", 256, "--out-dir", tree / "try")
    assert f"checked {WORD} on ptxsim" in run(tree, module[-1], source, option, like, *fast)
    assert by_name == f"make try KERNEL={NAME}"
    screen = run(tree, module[-1], NAME, *fast)
    assert f"checked {NAME} on ptxsim" in screen and " vectorized " in screen


def test_the_documented_measurement_is_planned(tree: Path) -> None:
    (command,) = COMMANDS[3]
    done = snakemake(tree, "-n", *shlex.split(command)[1:])
    assert done.returncode == 0 and NAME in done.stdout, done.stdout + done.stderr


def test_a_kernel_that_no_archive_has_is_not_measured_and_breaks_nothing(tree: Path) -> None:
    out, variants = tree / "out", tree / "out" / "variants.csv"
    run(tree, "kernels.catalogue", "--out", variants)
    common, results = ("--catalogue", variants), ("--results", "data/h100")
    shown = (*results, *common, "--out", out)
    run(tree, "analysis", "tabulate", *shown, "summary", "timings", "kernels")
    run(tree, "experiments.stages.analytic", "--out", out / "analytic.csv")
    claims = ("--analytic", out / "analytic.csv", "--out", out / "claims.csv")
    # --check: no verdict may change.
    run(tree, "analysis", "claims", *common, "--archives", "data/h100", *claims, "--check")
    run(tree, "analysis", "draw", *shown, "ladder:sgemm_ladder")
    (row,) = [row for row in dict_rows(variants, Variants) if row["variant"] == NAME]
    assert (row["builds_on"], row["source"]) == ("sgemm_vectorized", f"kernels/sgemm/{WORD}.cu")
    summary = json.loads((out / "summary.json").read_text())
    ladder = next(item for item in summary["experiments"] if item["name"] == "sgemm_ladder")
    assert NAME in ladder["missing"] and not summary["failed"]
    kernels = (out / "kernels.csv").read_text()
    assert re.search(rf"^{NAME},", kernels, re.M) and NAME not in (out / "timings.csv").read_text()
