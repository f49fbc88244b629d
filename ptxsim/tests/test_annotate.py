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
    assert found[11][:2] == ("!!", ["", "", "", "4", "64"])
    assert found[11][2].endswith("; in put.cuh:3")
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
    {
        "mov.u32 %i, %t;": "4 sectors a request (ideal 4), 32 of 32 bytes used, coalesced",
        "mov.u32 %i, 0;": "1 sector a request (ideal 1), 4 of 32 bytes used, broadcast",
        "add.u32 %i, %t, 1;": "5 sectors a request (ideal 4), 25.6 of 32 bytes used, misaligned",
        "shl.b32 %i, %t, 5;": "32 sectors a request (ideal 4), 4 of 32 bytes used, strided",
        "shr.u32 %i, %t, 4; shl.b32 %i, %i, 6;": "2 sectors a request (ideal 1), 4 of 32 bytes used, strided",
    }.items(),
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


PAGE = f"""{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b32 %t, %a, %b; .reg .b64 %x, %y; .reg .f32 %f<9>;
.shared .align 16 .b8 s[4096]; .local .align 4 .b8 l[8]; ld.param.u64 %x, [p]; mov.u32 %t, %tid.x; mov.u32 %b, s;
.loc 1 2 1
shl.b32 %a, %t, 7; and.b32 %a, %a, 4095; add.u32 %a, %a, %b; st.shared.f32 [%a], %f0;
.loc 1 3 1
shl.b32 %a, %t, 3; add.u32 %a, %a, %b; st.shared.f32 [%a], %f0;
.loc 1 4 1
ld.shared.f32 %f0, [%b]; ld.shared.f32 %f1, [%b+4];
.loc 1 5 1
ld.shared.f32 %f2, [%b+8]; ld.shared.f32 %f3, [%b+12];
.loc 1 6 1
st.local.u32 [l], %t; ld.local.u32 %a, [l+4]; mad.wide.u32 %y, %t, 8, %x; ld.global.u32 %a, [%y];
.loc 2 2 1, function_name $f, inlined_at 1 7 1
st.global.u32 [%x], %a;
.loc 2 9 1, function_name $f, inlined_at 1 7 1
mad.wide.u32 %y, %t, 4, %x; st.global.u32 [%y+4], %a;
ret; }}
.file 1 "k.cu"
.file 2 "h.cuh"
"""

# Two warps. The loads of lines 4 and 5 are one of 128 bits, of one address, line 2 has 62 of 64
# wavefronts too many, and line 7 2 of 10 sectors.
PAGE_SHOWN = """\
k: grid (1, 1, 1), block (64, 1, 1)
shared memory: 72 wavefronts, 8 would do (88.9% excess)
global memory: 28 sectors, 18 would do (35.7% excess), 18.6 of 32 bytes used of each
local memory: 2 loads, 2 stores, 16 sectors; the arrays take 8 bytes of each thread
== k.cu
     shared memory    global
         ld       st   ld   st   warps line │ source
                                          1 │ line 1
!!            32 32w                 2    2 │ line 2
!               2 2w                 2    3 │ line 3
          1                          2    4 │ line 4  <- 2 merged, 2 issue cycles more each
        = 4                               5 │ line 5
!!                     16            6    6 │     line 6 …  <- ld 8 sectors a request (ideal 4), 16 of 32 byt…
!                           22       4    7 │ line 7  <- st 1 sector a request (ideal 1), 4 of 32 bytes…
                                          8 │ line 8

== h.cuh: lines with accesses
     shared memory    global
         ld       st   ld   st   warps line │ source
                                          1 │ inlined 1
                             4       2    2 │ inlined 2  <- st 1 sector a request (ideal 1), 4 of 32 bytes…
                                          3 │ inlined 3
                                          4 │ inlined 4
                                        ...
                                          7 │ inlined 7
                                          8 │ inlined 8
!                         25.6       2    9 │ inlined 9  <- st 5 sectors a request (ideal 4), 25.6 of 32 b…
                                         10 │ inlined 10
                                         11 │ inlined 11
"""


def test_a_page_as_a_whole(tmp_path: Path) -> None:
    sources = {
        "k.cu": [f"line {n}" for n in range(1, 9)],
        "h.cuh": [f"inlined {n}" for n in range(1, 13)],
    }
    sources["k.cu"][5] = f"\tline 6 {'x' * 30}"
    for name, lines in sources.items():
        (tmp_path / name).write_text("\n".join(lines))
    kernel, counters = ptxsim.load(PAGE), Counters()
    array = ptxsim.Array(np.zeros(1024, np.int32))
    kernel.launch(1, 64, [array], observers=[counters], checks=False)
    page = annotate.listing(kernel, counters, near=[tmp_path], width=110)
    legend = page.index("== k.cu")
    assert [*page[:4], *page[legend:]] == PAGE_SHOWN.splitlines()
    coloured = annotate.listing(kernel, counters, near=[tmp_path], width=110, colour=True)
    assert [re.sub(r"\033\[[0-9;]*m", "", line) for line in coloured] == page
    codes = [re.findall(r"\033\[([0-9;]*)m", line) for line in coloured[legend + 3 : legend + 11]]
    dim, red, yellow = ["2", "0"], ["1;31", "0"], ["33", "0"]
    assert codes == [dim, red, yellow, dim, dim, red + dim, yellow + dim, dim]


def test_the_source_may_be_named(folder: Path, tmp_path: Path, capsys) -> None:
    moved = tmp_path / "kernel.ptx"
    moved.write_text((folder / "k.ptx").read_text().replace(str(folder), "/nowhere"))
    assert main(["annotate", str(moved), *RUN]) == 2
    assert "source /nowhere/k.cu (named by the PTX) is not there" in capsys.readouterr().err
    assert main(["annotate", str(moved), *RUN, "--source", str(folder / "k.cu")]) == 0
    text = capsys.readouterr().out
    assert rows(text, "k.cu")[7][1][0] == "32 32w"
    assert "put.cuh: lines with accesses (source not found)" in text
    assert rows(text, "put.cuh")[3][1][3] == "4"
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
    assert "\033[" not in out.read_text()
    assert "put(&wide[(y * 32 + x) * 8], value);" in out.read_text()
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
