"""The registry of figures and report tables: read without importing them, checked, and one file makes a figure."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, assert_one_line, run_module
from machine_folder import Folder
from made_inputs import planned, write_inputs

from analysis import registry
from contracts import UserError

FIGURE = """
from analysis.figures import style


def mine(inputs):
    drawn, axes = style.plt.subplots(figsize=(style.WIDTH, 2))
    axes.plot([1, 2], [1, len(inputs.measured().bench)])
    style.note(drawn, inputs.measured())
    return drawn
"""
ENTRY = {"function": "analysis.figures.mine.mine", "category": "2 Ladder", "title": "Mine", "reads": ["measured"]}


@pytest.fixture
def still(tmp_path: Path, archive: Path) -> Folder:
    return Folder(tmp_path, archive)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the registry looks at, and may be changed."""
    for part in ("analysis", "contracts", "experiments", "workflow/report", "paper"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def add(tree: Path, name: str = "mine", **changes: object) -> None:
    """A module and its caption, of a figure called `mine` whatever the caption's name."""
    head = textwrap.indent(yaml.safe_dump({"figures": {"mine": ENTRY | changes}}), "   ")
    (tree / "analysis" / "figures" / "mine.py").write_text(FIGURE)
    (tree / "workflow" / "report" / f"{name}.rst").write_text(f"..\n{head}\nWhat to look for.\n")


def test_reading_it_imports_nothing_heavy() -> None:
    code = """
import sys
from analysis import registry
assert len(registry.figures()) > 15 and len(registry.tables()) > 15
print([name for name in ("pandas", "matplotlib", "seaborn", "numpy", "analysis.figures.stalls") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_everything_that_is_registered_can_be_loaded() -> None:
    for one in [*registry.figures().values(), *registry.tables().values()]:
        assert callable(one.load()), one.name
        assert one.path in one.code and "analysis/inputs.py" in one.code
        assert all((ROOT / path).is_file() for path in (*one.code, one.caption))


def test_code_is_what_is_imported_at_any_remove() -> None:
    code = registry.figures()["stalls"].code
    assert {"analysis/figures/counters.py", "analysis/tables/compare.py", "analysis/metrics.py"} <= set(code)
    assert "analysis/figures/roofline.py" not in code


def test_a_figure_of_an_experiment_is_drawn_where_it_applies() -> None:
    found = registry.outputs(planned())
    assert {"ladder_sgemm_ladder", "sizes_sgemm_sizes", "data_kinds_clock_regimes", "counters"} <= set(found)
    assert found["counters_sgemm_ladder"][1] == "sgemm_ladder" and "ladder_sgemm_sizes" not in found
    assert "counters_sgemm_sizes" not in found  # it profiles nothing


def test_a_module_and_a_caption_make_a_figure(tree: Path, archive: Path, variants_csv: Path, tmp_path: Path) -> None:
    add(tree)
    inputs = write_inputs(tmp_path / "inputs.json", archive, variants_csv)
    command = ("analysis.draw", "--inputs", inputs, "--out", tmp_path / "out", "mine")
    done = run_module(*command, cwd=tree, PYTHONPATH=str(tree))
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"mine.svg", "mine.pdf"}
    code = registry.figures(tree)["mine"].code  # it imports no `Inputs`, and is given them all the same
    assert {"analysis/figures/mine.py", "analysis/figures/style.py", "analysis/inputs.py"} <= set(code)


def test_a_function_is_given_what_its_parameters_name(still: Folder) -> None:
    inputs = still.inputs()
    taken: list[object] = []

    def one_of_each(measured: object, variants: object, resources: object, digits: int = 6) -> None:
        taken.extend((measured, variants, resources, digits))

    def unknown(measured: object, resource: object) -> None: ...

    one = registry.figures()["energy"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.Registered, "load", lambda _: one_of_each)
        one.made(inputs)
        assert taken[0] is inputs.measured() and taken[1] is inputs.variants and taken[2] is inputs.rows("resources")
        assert taken[3] == 6
        patch.setattr(registry.Registered, "load", lambda _: unknown)
        with pytest.raises(
            UserError, match=r"^unknown parameter of draw 'resource' in analysis/figures/energy.py; near"
        ):
            one.made(inputs)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reeds": []}, "unknown key 'reeds' in figures.mine; nearest: reads"),
        (
            {"category": "2 Ladders"},
            'category = "2 Ladders" is not allowed; allowed: one of 1 Paper, 2 Ladder, 3 Counters',
        ),
        ({"function": "analysis.figures.mien.mine"}, "no such file: analysis/figures/mien.py"),
        ({"optional": ["sanitize"]}, "reads 'sanitize', which is not registered; nearest: .*sanitizer"),
        ({"optional": ["report:clams"]}, "reads 'report:clams', which is not registered; nearest: .*report:claims"),
        ({"optional": ["paper/nothing.csv"]}, "reads 'paper/nothing.csv', which is not registered; no such file"),
        ({"each": "experiment"}, 'each = "experiment" is not allowed; allowed: one of ladder, sizes'),
        ({"optional": "sanitizer"}, 'optional = "sanitizer" is not allowed; allowed: array'),
    ],
)
def test_a_wrong_registration_is_one_line(changes: dict[str, object], words: str, tree: Path) -> None:
    add(tree, **changes)
    with pytest.raises(UserError, match=words) as error:
        registry.figures(tree)
    assert str(error.value).startswith("workflow/report/mine.rst: ") and "\n" not in str(error.value)


def test_a_head_that_is_not_yaml_is_one_line(tree: Path) -> None:
    (tree / "workflow" / "report" / "mine.rst").write_text("..\n   figures: {mine\n\nWhat to look for.\n")
    with pytest.raises(UserError, match=r"workflow/report/mine\.rst") as error:
        registry.figures(tree)
    assert "not YAML" in str(error.value) and "\n" not in str(error.value)


def test_two_figures_of_one_name_are_one_line(tree: Path) -> None:
    add(tree)
    add(tree, name="other")
    with pytest.raises(UserError, match=r"other.rst: figure 'mine' is registered twice \(also in workflow/report/mine"):
        registry.figures(tree)


def test_a_faulty_registration_is_one_line_of_the_command_too(tree: Path, archive: Path, variants_csv: Path) -> None:
    add(tree, reeds=[])
    inputs = write_inputs(tree / "inputs.json", archive, variants_csv)
    command = ("analysis.draw", "--inputs", inputs, "--out", tree / "out", "stalls")
    assert_one_line(run_module(*command, cwd=tree, PYTHONPATH=str(tree)), "unknown key 'reeds'")
    assert not (tree / "out").exists()


def test_a_function_that_is_not_there_is_one_line(tree: Path, archive: Path, variants_csv: Path) -> None:
    add(tree, function="analysis.figures.mine.yours")
    inputs = write_inputs(tree / "inputs.json", archive, variants_csv)
    command = ("analysis.draw", "--inputs", inputs, "--out", tree / "out", "mine")
    said = "'mine': analysis/figures/mine.py has no function yours"
    assert_one_line(run_module(*command, cwd=tree, PYTHONPATH=str(tree)), said)
