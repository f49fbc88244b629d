"""YAML: what the one loader takes, and one line for what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts import UserError, load_yaml, parse_yaml_value

BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: 1\nb: !!int "x"', r"line 2: the tag .*int is not allowed"),
        ('!!timestamp "x"', "line 1: the tag .*timestamp is not allowed"),
        ("&a [*a]", "line 1: the anchor &a is not allowed"),
        ("a: *b", "line 1: "),
        (BOMB, "line 1: the anchor &a is not allowed"),
        ("a: " + "9" * 5000, "line 1: a number of 5000 characters is not allowed; allowed: at most 40"),
        ("[" * 20_000, "line 1: "),
        ("[" * 500, "line 1: nested too deeply; allowed: 32 levels"),
        ("a:\n" + "".join(" " * i + "b:\n" for i in range(1, 40)), "line 33: nested too deeply"),
        ("a: b\nc: \0", r"line 2: the character '\\x00' is not allowed"),
        ('a: "\\0"', r"line 1: the character '\\x00' is not allowed"),
        ("a: 1\na: 2", "line 2: the key 'a' stands twice; allowed: once"),
        ("1: x", "line 1: the key 1 is not text"),
        ("true: x", "line 1: the key true is not text"),
        ("x: {null: y}", "line 1: the key null is not text"),
        ("? [a]\n: b", "line 1: a key that is a list or a mapping is not allowed"),
        ("a: 1e400", "line 1: 1e400 is not allowed; allowed: finite numbers"),
        ("a: .inf", "line 1: .inf is not allowed"),
        ("a: 1\n---\nb: 2", "line 2: a second document is not allowed"),
        ("x" * 4_000_001, "more than 4000000 bytes"),
    ],
)
def test_yaml_that_is_not_allowed(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said) as error:
        load_yaml(path)
    assert str(path) in str(error.value) and len(str(error.value).splitlines()) == 1


def test_what_yaml_means(tmp_path: Path) -> None:
    """Plain decimal numbers, truths and null; everything else is text, dates too."""
    path = tmp_path / "x.yaml"
    path.write_text("a: [1, -2, +3, 0.5, .5, 1e-6, 1.0e+18, true, No, null, ~, ]\nb: {x: 'y', z: }\n")
    assert load_yaml(path) == {
        "a": [1, -2, 3, 0.5, 0.5, 1e-6, 1e18, True, False, None, None],
        "b": {"x": "y", "z": None},
    }
    for text in ("2001-99-99", "2001-01-01", "010", "0x10", "1_000", "1:30", "1.2.3", "-x", "3rd", "<<"):
        assert parse_yaml_value(text, "here") == text
    with pytest.raises(UserError, match=r"^config.yaml: nvcc = '\[x': not YAML"):
        parse_yaml_value("[x", "config.yaml: nvcc")
    assert parse_yaml_value("a'$(touch x)'/nvcc", "here") == "a'$(touch x)'/nvcc"
