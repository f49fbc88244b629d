"""Mutations of the project's own files: of their bytes, and of what they hold.

FUZZ_EXAMPLES says how many each reader is given; few in `make test`, the same ones each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from contracts import UserError

FEW = 60
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", FEW))
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= FEW,
    database=None,
    suppress_health_check=list(HealthCheck),
)
LONGEST_S = 10  # of processor time: a slow machine does not count

VALUES: list[Any] = [
    *(None, True, False, 0, -1, -32, 1, 3, 2**31, 2**63, 10**400, 0.5, 1024.0, 128.0, 1e308, -1e308, 1e-308),
    *(
        "",
        " ",
        "x",
        "-x",
        "é",
        "1_0",
        " 3",
        "٣",
        "1e400",
        "/etc/passwd",
        "../experiments/gpu/harness.cu",
        "a\nb",
        "a'$(x)'",
    ),
    *("x" * 5000, "2001-99-99", "sgemm_naive", "fp32", "BLOCK", "\x00", "\ud800", "\u2028"),
    *([], {}, [[]], [None], ["x", "x"], {"x": 1}, {"first": 1024.0, "last": 2, "step": 0}),
]
TOKENS = [
    *(
        b"\0",
        b"\n",
        b"\r",
        b"\t",
        b"&a [*a]",
        b"*a",
        b"!!int x",
        b"!!timestamp x",
        b"2001-99-99",
        b"9" * 5000,
        b"'",
        b'"',
    ),
    *(
        b"[" * 20_000,
        b"{" * 3000,
        b"- " * 2000,
        b"? ",
        b": ",
        b"---\n",
        b"...",
        b"%TAG ! x\n",
        b"<<: ",
        b"1:",
        b"true:",
    ),
    *(b"true:", b"1e308", b"1e400", b".inf", b".nan", b"NaN", b"1_0", b" 3", "٣".encode(), b"\xff\xfe", b","),
    *(
        b'"\\uD800"',
        b'"\\U99999999"',
        b'"\\0"',
        b"|\n",
        b">-9\n",
        b"#",
        b"@",
        b"`",
        b"true",
        b"-",
        b"0",
        b"1e308",
        b"}",
    ),
]


@st.composite
def changed_bytes(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with one to three changes: a token put in, a part gone or twice, a byte turned, the end cut."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(whole)))
        end = min(len(whole), start + draw(st.sampled_from([0, 1, 2, 8, 50, 1000])))
        kind = draw(st.sampled_from(["token", "token", "gone", "twice", "byte", "cut"]))
        middle = whole[start:end]
        if kind == "token":
            middle = draw(st.sampled_from(TOKENS))
        elif kind == "gone":
            middle = b""
        elif kind == "twice":
            middle = middle * 2
        elif kind == "byte":
            middle = bytes([draw(st.integers(0, 255))]) + middle[1:]
        else:
            end = len(whole)
        whole = whole[:start] + middle + whole[end:]
    return whole


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder in a document with each of its keys."""
    if isinstance(value, (dict, list)):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from places(inner)


@st.composite
def changed_value(draw: st.DrawFn, whole: Any) -> Any:
    """A document with one to three values changed, gone, moved or under another key."""
    whole = json.loads(json.dumps(whole))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(whole))
        if not found:
            break
        holder, key = found[draw(st.integers(0, len(found) - 1))]
        kind = draw(st.sampled_from(["value", "value", "value", "gone", "key", "moved"]))
        if kind == "value":
            holder[key] = json.loads(json.dumps(draw(st.sampled_from(VALUES))))
        elif kind == "gone":
            del holder[key]
        elif kind == "moved":
            other, name = found[draw(st.integers(0, len(found) - 1))]
            holder[key] = json.loads(json.dumps(other[name]))
        elif isinstance(holder, dict):
            named = draw(st.sampled_from([v for v in VALUES if not isinstance(v, (list, dict))]))
            holder[named] = holder.pop(key)
            if not isinstance(named, str):  # no longer JSON
                return whole
    return whole


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_bytes(value: Any) -> bytes:
    """A document as YAML, without aliases."""
    text = yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True)
    return text.encode(errors="surrogatepass")


def _hang(*_: object) -> NoReturn:
    raise AssertionError(f"no end within {LONGEST_S} s of processor time")


@contextlib.contextmanager
def reported_in_one_line(*named: str) -> Iterator[None]:
    """What is refused is a `UserError` of one line that has all of `named`; anything else goes through and fails."""
    before = signal.signal(signal.SIGVTALRM, _hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        yield
    except UserError as error:
        text = str(error)
        assert len(text.splitlines()) == 1, text
        assert len(text) < 20_000 and all(name in text for name in named), text
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
