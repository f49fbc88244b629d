"""`help()` of the public names: signatures are real, and say with their docstrings what is meant."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import ptxsim

EVIDENT = 3  # parameters that need no words beside the docstring


def public() -> Iterator[tuple[str, Any]]:
    """The public names, with the public methods of the classes among them."""
    for name in ptxsim.__all__:
        value = getattr(ptxsim, name)
        yield name, value
        for part, method in inspect.getmembers(value, inspect.isfunction):
            if inspect.isclass(value) and not part.startswith("_"):
                yield f"{name}.{part}", method


@pytest.mark.parametrize(("name", "value"), [*public()])
def test_help_of_each_public_name(name: str, value: Any) -> None:
    text = inspect.getdoc(value)
    assert text and not text.startswith(f"{name}("), f"{name} has no docstring"
    words = inspect.isclass(value) and issubclass(value, (enum.Enum, ptxsim.PtxsimError))
    if words or not callable(value):
        return
    parameters = inspect.signature(value).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}, name
    names = [n for n in parameters if n != "self"]
    if len(names) > EVIDENT and not name.startswith(("Counters.", "Observer.")):
        assert [n for n in names if not re.search(rf"\b{n}\b", text)] == []


def test_launch_takes_what_its_help_says() -> None:
    taken = inspect.signature(ptxsim.Kernel.launch).parameters
    assert [*taken][:5] == ["self", "grid", "block", "args", "shared_bytes"]
    rest = [*taken.values()][5:]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in rest)
