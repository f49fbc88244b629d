"""The annotated source: what stands next to a line is what the counters count there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from running import HEADER, launch_options

import ptxsim
from ptxsim import annotate
from ptxsim.cli import main
from ptxsim.count.counters import Counters

INCLUDED = """#pragma once
__device__ inline void put(float* to, float value) {
    *to = value;
}
"""
SOURCE = """#include "put.cuh"
extern "C" __global__ void mixed(float* out, const float* in, float* wide) {
    __shared__ float tile[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * 32 + x];
    __syncthreads();
    tile[x][31 - y] += 1.0f;
    __syncthreads();
    const float value = tile[y][x];
    out[y * 32 + x] = value;
    put(&wide[(y * 32 + x) * 8], value);
    const int unused = 0;
}
"""
RUN = launch_options(2, "32,32", "zeros:f32:1024", "ones:f32:1024", "zeros:f32:8192")
RUN += ["--no-checks"]  # the second block writes what the first has written


@pytest.fixture(scope="module")
def folder(built) -> Path:
    """A folder with the source, its header and its PTX."""
    return built(SOURCE, {"put.cuh": INCLUDED}).parent


def rows(text: str, file: str) -> dict[int, tuple[str, list[str], str]]:
    """From one file's listing: by line number, the mark, cells and source."""
    part = next(
        part for part in text.split("== ") if part.splitlines()[0].split(":")[0].endswith(file)
    )
    found = {}
    for line in part.splitlines():
        gutter, bar, source = line.partition(" │")
        if bar and gutter.split()[-1].isdigit():
            ends = np.cumsum([w + 1 for w in annotate.WIDTHS])
            cells = [
                gutter[end - w - 1 : end - 1].strip()
                for end, w in zip(ends, annotate.WIDTHS, strict=True)
            ]
            found[int(cells[-1])] = (cells[0], cells[1:-1], source[1:])
    return found


def show(folder: Path, capsys, *options: str) -> str:
    assert main(["annotate", str(folder / "k.ptx"), *RUN, *options]) == 0
    return capsys.readouterr().out


def test_each_line_has_its_figures(folder: Path, capsys) -> None:
    text = show(folder, capsys)
    found = rows(text, "k.cu")
    assert [source.partition("  <- ")[0] for _, _, source in found.values()] == SOURCE.splitlines()
    nothing = ("", ["", "", "", "", ""])
    assert found[2][:2] == found[12][:2] == nothing
    # a load and a store by each of 64 warps
    assert found[5][:2] == ("", ["", "1", "32", "", "128"])
    assert found[7][:2] == ("!!", ["32 32w", "32 32w", "", "", "128"])  # loads and stores apart
    assert found[9][:2] == ("", ["1", "", "", "", "64"])
    assert found[10][:2] == ("", ["", "", "", "32", "64"])
    assert found[11][:2] == ("!!", ["", "", "", "4", "64"]) and found[11][2].endswith(
        "; in put.cuh:3"
    )
    inlined = rows(text, "put.cuh")
    strided = "st 32 sectors a request (ideal 4), 4 of 32 bytes used, strided"
    assert list(inlined) == [1, 2, 3, 4]
    assert inlined[3] == ("!!", ["", "", "", "4", "64"], f"    *to = value;  <- {strided}")
    whole = rows(show(folder, capsys, "--file", "put.cuh"), "put.cuh")
    assert [
        source.partition("  <- ")[0] for _, _, source in whole.values()
    ] == INCLUDED.splitlines()
    head = text.split("== ")[0]
    assert "mixed: grid (2, 1, 1), block (32, 32, 1)" in head
    assert "shared memory: 4,224 wavefronts, 256 would do (93.9% excess)" in head
    assert (
        "global memory: 2,560 sectors, 768 would do (70.0% excess), 9.6 of 32 bytes used of each"
        in head
    )


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("mov.u32 %i, %t;", "4 sectors a request (ideal 4), 32 of 32 bytes used, coalesced"),
        ("mov.u32 %i, 0;", "1 sector a request (ideal 1), 4 of 32 bytes used, broadcast"),
        ("add.u32 %i, %t, 1;", "5 sectors a request (ideal 4), 25.6 of 32 bytes used, misaligned"),
        ("shl.b32 %i, %t, 5;", "32 sectors a request (ideal 4), 4 of 32 bytes used, strided"),
        (
            "shr.u32 %i, %t, 4; shl.b32 %i, %i, 6;",
            "2 sectors a request (ideal 1), 4 of 32 bytes used, strided",
        ),
    ],
)
def test_sectors_have_one_word(instruction: str, words: str) -> None:
    text = f"""{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b32 %t, %i, %x; .reg .b64 %a;
.shared .b32 s; mov.u32 %t, %tid.x; st.shared.b32 [s], 0; {instruction}
ld.param.u64 %a, [p]; mad.wide.u32 %a, %i, 4, %a; ld.global.u32 %x, [%a];
ret; }}
"""
    counters = Counters()
    ptxsim.load(text).launch(
        1, 32, [ptxsim.Array(np.zeros(1024, np.int32))], observers=[counters], checks=False
    )
    found = {s.space: s.sectors_in_words() for s in counters.by_instruction()}
    assert (found["shared"], found["global"]) == ("", words)  # shared memory has no sectors


MERGED = f"""{HEADER}.visible .entry k() {{ .reg .b32 %t, %a; .reg .f32 %f<9>; .shared .align 16 .b8 s[4096];
mov.u32 %t, %tid.x; mov.u32 %a, s;
.loc 1 2 1
mad.lo.u32 %a, %t, 16, %a;
.loc 1 3 1
ld.shared.f32 %f0, [%a]; ld.shared.f32 %f1, [%a+4];
.loc 1 4 1
ld.shared.f32 %f2, [%a+8]; ld.shared.f32 %f3, [%a+12];
ret; }}
.file 1 "merged.cu"
"""


def test_merged_loads_count_at_the_line_of_the_wide_one(tmp_path: Path, capsys) -> None:
    (tmp_path / "merged.ptx").write_text(MERGED)
    (tmp_path / "merged.cu").write_text("one\ntwo\nthree\nfour\n")
    assert (
        main(["annotate", str(tmp_path / "merged.ptx"), *launch_options(1, 32), "--no-checks"]) == 0
    )
    found = rows(capsys.readouterr().out, "merged.cu")
    assert found[3] == ("", ["1", "", "", "", "1"], "three")
    assert found[4] == ("", ["= 3", "", "", "", ""], "four")


def test_a_line_with_little_of_the_excess_has_one_mark(tmp_path: Path, capsys) -> None:
    """Of 32 wavefronts that need not be, 31 are of one line, and one is of another."""
    loads = "".join(
        f".loc 1 {line} 1\nshl.b32 %a, %t, {shift}; add.u32 %a, %a, %b; ld.shared.f32 %f0, [%a];\n"
        for line, shift in ((2, 7), (3, 3), (4, 2))
    )
    (tmp_path / "k.ptx").write_text(
        f"""{HEADER}.visible .entry k() {{ .reg .b32 %t, %a, %b; .reg .f32 %f0; .shared .align 16 .b8 s[4096];
mov.u32 %t, %tid.x; mov.u32 %b, s;
{loads}ret; }}
.file 1 "k.cu"
"""
    )
    (tmp_path / "k.cu").write_text("one\ntwo\nthree\nfour\n")
    assert main(["annotate", str(tmp_path / "k.ptx"), *launch_options(1, 32), "--no-checks"]) == 0
    found = rows(capsys.readouterr().out, "k.cu")
    assert {line: mark for line, (mark, _, _) in found.items() if line > 1} == {
        2: "!!",
        3: "!",
        4: "",
    }


def test_the_source_may_be_named(folder: Path, tmp_path: Path, capsys) -> None:
    moved = tmp_path / "kernel.ptx"
    moved.write_text((folder / "k.ptx").read_text().replace(str(folder), "/nowhere"))
    assert main(["annotate", str(moved), *RUN]) == 2
    assert "source /nowhere/k.cu (named by the PTX) is not there" in capsys.readouterr().err
    assert main(["annotate", str(moved), *RUN, "--source", str(folder / "k.cu")]) == 0
    text = capsys.readouterr().out
    assert rows(text, "k.cu")[7][1][0] == "32 32w"
    assert (
        "put.cuh: lines with accesses (source not found)" in text
        and rows(text, "put.cuh")[3][1][3] == "4"
    )
    (tmp_path / "k.cu").write_text(SOURCE)  # next to the PTX it is found by its name
    assert main(["annotate", str(moved), *RUN]) == 0


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda ptx: re.sub(r"(?m)^\s*\.loc.*$", "", ptx),
            [],
            "has no line information; compile with nvcc -lineinfo",
        ),
        (
            str,
            ["--source", "short.cu"],
            "has 1 lines, but the PTX has code of line 11: it is not what was compiled",
        ),
        (str, ["--source", "absent.cu"], "absent.cu: No such file or directory"),
        (
            str,
            ["--file", "absent.cu"],
            "absent.cu is no file of mixed; its line information names:",
        ),
        (str, ["--out", "taken/x.txt"], "cannot write taken/x.txt"),
    ],
)
def test_what_cannot_be_shown_is_reported_in_one_line(
    change, options, message, folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.cu").write_text("// nothing\n")
    Path("taken").write_text("")
    Path("k.ptx").write_text(change((folder / "k.ptx").read_text()))
    assert main(["annotate", "k.ptx", *RUN, *options]) == 2
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.count("\n") == 1 and shown.out == ""


def test_colours_are_for_a_terminal_that_wants_them(
    folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    coloured = show(folder, capsys)
    assert "\033[1;31m!!" in coloured
    plain = re.sub(r"\033\[[0-9;]*m", "", coloured)
    assert all(len(line) <= 80 for line in plain.split("== ")[1].splitlines()[1:])
    assert "const int unused = 0;\n" in plain
    out = tmp_path / "new" / "listing.txt"
    assert show(folder, capsys, "--out", str(out)) == ""
    assert (
        "\033[" not in out.read_text() and "put(&wide[(y * 32 + x) * 8], value);" in out.read_text()
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in show(folder, capsys)


def test_calls_are_followed_through_functions_inlined_in_functions() -> None:
    """nvcc says of each line only what calls it; two calls of one function must not be mixed up."""
    text = f"""{HEADER}.visible .entry k() {{ .reg .b32 %a; .shared .align 16 .b8 s[64];
.loc 1 1 1
mov.u32 %a, s;
.loc 2 20 1, function_name $outer, inlined_at 1 3 1
.loc 2 10 1, function_name $inner, inlined_at 2 20 1
st.shared.b32 [%a], %a;
.loc 2 21 1, function_name $outer, inlined_at 1 4 1
.loc 2 10 1, function_name $inner, inlined_at 2 20 1
st.shared.b32 [%a], %a;
ret; }}
.file 1 "k.cu"
.file 2 "h.cuh"
"""
    counters = Counters()
    ptxsim.load(text).launch(1, 32, [], observers=[counters], checks=False)
    found = annotate.costs(counters)
    assert {line: cost.executed for line, cost in found["k.cu"].items()} == {3: 1, 4: 1}
    assert {line: cost.executed for line, cost in found["h.cuh"].items()} == {10: 2}
    assert found["k.cu"][3].through == {"h.cuh:10"}
