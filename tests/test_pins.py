"""One set of pins in two files, and one test command in three."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from helpers import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EMULATOR = tomllib.loads((ROOT / "ptxsim" / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "env.yaml").read_text())["dependencies"]


def test_env_yaml_and_pyproject_hold_the_same_pins() -> None:
    pip = next(entry["pip"] for entry in CONDA if isinstance(entry, dict))
    own = {f"ptxsim=={EMULATOR['version']}": "-e ./ptxsim"}  # not on an index: from its folder
    listed = [own.get(pin, pin) for pin in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]]
    assert sorted(pip) == sorted(listed) and "-e ./ptxsim" in listed


def test_every_package_is_pinned() -> None:
    for pin in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]:
        assert "==" in pin or pin == "packaging<26", pin
    assert "torch==2.13.0" in PROJECT["dependencies"]
    assert "cuda-toolkit[nvcc,cudart,cccl]==13.0.*" in PROJECT["dependencies"]


def test_conda_takes_a_python_that_the_project_takes() -> None:
    least = PROJECT["requires-python"].removeprefix(">=")
    conda = next(entry for entry in CONDA if isinstance(entry, str) and entry.startswith("python="))
    assert conda.removeprefix("python=") == least
    assert {"make", "gxx", "pip"} <= {entry for entry in CONDA if isinstance(entry, str)}


@pytest.mark.parametrize("name", [".ci/run", "README.md", "Makefile"])
def test_the_readme_s_test_command_is_ci_s(name: str) -> None:
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not written yet")
    text = path.read_text()
    assert name != "Makefile" or "--editable ./ptxsim" in text
    assert ("\ntest:" in text) if name == "Makefile" else ("make test" in text)


def test_ci_can_be_run() -> None:
    path: Path = ROOT / ".ci" / "run"
    if not path.is_file():
        pytest.skip(".ci/run is not written yet")
    assert path.stat().st_mode & 0o111 and path.read_text().startswith("#!")


def test_the_emulator_takes_the_pinned_versions() -> None:
    """ptxsim's own pyproject.toml states ranges; this project's pins lie in them."""
    pins = {Requirement(pin).name: Requirement(pin) for pin in PROJECT["dependencies"]}
    for text in EMULATOR["dependencies"]:
        wanted = Requirement(text)
        (pinned,) = pins[wanted.name].specifier
        assert wanted.specifier.contains(pinned.version), text
    assert EMULATOR["requires-python"] == PROJECT["requires-python"]


def test_packages_of_the_wheel_are_the_rooms_with_python() -> None:
    """A room that is missing from pyproject.toml would be missing from an installed tree."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    listed = [name for name in packages if "." not in name]
    there = {path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")}
    assert {*listed, "ptxsim"} == there
