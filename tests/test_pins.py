"""One set of pins in two files, and packages that are whole."""

from __future__ import annotations

import tomllib

import yaml
from helpers import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EMULATOR = tomllib.loads((ROOT / "ptxsim" / "pyproject.toml").read_text())["project"]
PINS = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["test"]


def test_env_yaml_and_pyproject_hold_the_same_pins_and_a_python_that_both_take() -> None:
    conda = yaml.safe_load((ROOT / "env.yaml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in conda if isinstance(entry, dict))
    of_folder = {f"ptxsim=={EMULATOR['version']}": "-e ./ptxsim"}  # not on an index
    assert sorted(pip) == sorted(of_folder.get(pin, pin) for pin in PINS) and "-e ./ptxsim" in pip
    assert all("==" in pin or pin == "packaging<26" for pin in PINS)
    required, names = (
        PROJECT["project"]["requires-python"],
        {one for one in conda if isinstance(one, str)},
    )
    assert {f"python={required.removeprefix('>=')}", "make", "gxx", "pip"} <= names
    assert EMULATOR["requires-python"] == required


def test_the_emulator_takes_the_pinned_versions() -> None:
    """ptxsim's own pyproject.toml states ranges; this project's pins lie in them."""
    pins = {Requirement(pin).name: Requirement(pin) for pin in PINS}
    for wanted in map(Requirement, EMULATOR["dependencies"]):
        (pinned,) = pins[wanted.name].specifier
        assert wanted.specifier.contains(pinned.version), wanted


def test_every_room_with_python_is_a_package_of_the_wheel() -> None:
    listed = {name for name in PROJECT["tool"]["setuptools"]["packages"] if "." not in name}
    assert {*listed, "ptxsim"} == {path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")}
