"""Pins of two packages that agree, and packages that are complete."""

from __future__ import annotations

import tomllib

import yaml
from helpers import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EMULATOR = tomllib.loads((ROOT / "ptxsim" / "pyproject.toml").read_text())["project"]
PINS = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["test"]
VERSIONS = {Requirement(pin).name: str(Requirement(pin).specifier) for pin in PINS}


def test_env_yaml_installs_both_packages_with_the_pins_of_pyproject() -> None:
    conda = yaml.safe_load((ROOT / "env.yaml").read_text())["dependencies"]
    *programs, pip = conda
    packages, names = pip["pip"][:2], pip["pip"][2:]
    assert packages == ["-e ./ptxsim", "-e .[test]"] and set(names) <= set(VERSIONS)
    required = PROJECT["project"]["requires-python"]
    assert f"python={required.removeprefix('>=')}" in programs
    assert EMULATOR["requires-python"] == required
    assert VERSIONS["ptxsim"] == f"=={EMULATOR['version']}"
    assert all("==" in version for name, version in VERSIONS.items() if name != "packaging")


def test_the_emulator_takes_the_pinned_versions() -> None:
    """ptxsim's own pyproject.toml states ranges; this project's pins lie in them."""
    for wanted in map(Requirement, EMULATOR["dependencies"]):
        assert wanted.specifier.contains(VERSIONS[wanted.name].removeprefix("==")), wanted


def test_every_room_with_python_is_a_package_of_the_wheel() -> None:
    listed = {name for name in PROJECT["tool"]["setuptools"]["packages"] if "." not in name}
    assert {*listed, "ptxsim"} == {path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")}
