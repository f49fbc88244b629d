"""Pictures of bank conflicts show what the counters count."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from helpers import ARCH, assert_one_line, json_dict, refused, run_module

import ptxsim
from contracts import write_json
from contracts.rows import BankAccesses, BankPicture
from experiments.emulation import bank_pictures, launching
from kernels import catalogue
from ptxsim import banks
from ptxsim.count import wavefronts
from ptxsim.count.counters import Counters
from ptxsim.ptx.sources import locations

PICTURES = "experiments.emulation.bank_pictures"
KERNELS = catalogue.load().kernels
# The first has 128-bit loads merged from scalar ones, the last cp.async and ldmatrix.
COVERED = ["sgemm_smem_tile", "sgemm_vectorized", "sgemm_at_swizzle_dbf_rw", "hgemm_naive_bf16"]


def count(parts) -> int:
    return sum(len(part.wavefronts) for part in parts)


@pytest.fixture(scope="module")
def kernels(builds):
    """A function: name in the catalogue to the kernel and its launch on one tile of C."""

    @functools.cache
    def get(name: str):
        launch = bank_pictures.small_launch(KERNELS[name])
        return ptxsim.load(builds(name) / f"{name}.ptx"), launch

    return get


@pytest.mark.parametrize("name", COVERED)
def test_pictures_add_up_to_the_counters(name: str, kernels) -> None:
    """Over all warps and executions of each access of each line: as many wavefronts and as many
    that would do.
    """
    kernel, launch = kernels(name)
    counters = Counters()
    kernel.launch(**launch, observers=[counters])
    counted = {s.instruction.pc: s for s in counters.by_instruction() if s.wavefronts}
    known, drawn = locations(kernel.program), {}
    for file, line in dict.fromkeys((known[pc][-1].file, known[pc][-1].line) for pc in counted):
        accesses = banks.accesses(kernel, line=line, file=file, **launch)
        assert [access.number for access in accesses] == list(range(1, accesses[0].of + 1))
        recorder = banks.Recorder({access.pc for access in accesses}, 0)
        kernel.launch(**launch, observers=[recorder])
        for access in accesses:
            pc = access.pc
            assert count(access.parts) == access.wavefronts
            assert access.ways <= max(counted[pc].ways) and access.width == counted[pc].width
            drawn[pc] = 0
            for warp in recorder.warps(pc):
                for e in recorder.of_warp(pc, warp):
                    lanes = (e.addresses, e.active, access.width, access.kind, e.source, e.reading)
                    drawn[pc] += count(wavefronts.serve(*lanes))
    assert drawn == {pc: s.wavefronts for pc, s in counted.items()}


def test_a_merged_load_is_one_wide_access(kernels) -> None:
    kernel, launch = kernels("sgemm_smem_tile")
    line = line_of("sgemm/smem_tile.cu", "sum += a_tile")
    wide = [access for access in banks.accesses(kernel, line=line, **launch) if access.merged]
    assert wide and all(access.width == 16 and len(access.merged) == 3 for access in wide)
    assert "made one LDS.128 by ptxas" in banks.table(wide[0])


def line_of(source: str, text: str) -> int:
    lines = (catalogue.ROOT / source).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_every_picture_of_the_list_finds_its_line() -> None:
    pictures = bank_pictures.load(catalogue.load())
    assert {"transposed_store", "swizzled_store", "padded_rows"} <= set(pictures)
    for wanted in (access for picture in pictures.values() for access in picture.accesses):
        assert bank_pictures.source_line(KERNELS[wanted.variant], wanted.line) > 1
    assert bank_pictures.load(catalogue.load(), chosen=["sgemm_naive"]) == {}


def test_the_swizzle_takes_the_conflict_away(builds, tmp_path: Path) -> None:
    """The picture of recorded accesses is that of kernels which are built for it."""
    pictures, files = bank_pictures.load(catalogue.load()), []
    for name in pictures["transposed_store"].variants:
        kernel = launching.load(KERNELS[name], builds(name))
        recorded = bank_pictures.recorded(KERNELS[name], kernel, pictures.values())
        files.append(tmp_path / name / "bank_accesses.json")
        write_json(files[-1], BankAccesses, recorded)
    out, from_sources = tmp_path / "figures", tmp_path / "from_sources"
    for options in (
        ["--emulated", *files, "--out-dir", out],
        ["--arch", ARCH, "--out-dir", from_sources],
    ):
        done = run_module(PICTURES, "transposed_store", *options)
        assert done.returncode == 0, done.stderr
    picture = out / "banks_transposed_store.json"
    assert picture.read_bytes() == (from_sources / picture.name).read_bytes()
    before, after = json_dict(picture, BankPicture)["accesses"]
    assert (before["wavefronts"], before["ideal"]) == (2, 1)
    assert (after["wavefronts"], after["ideal"]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "transposed_stor",
            "unknown picture 'transposed_stor' in workflow/bank_pictures.yaml; nea",
        ),
        ("ldmatrix", "no access of picture ldmatrix was recorded; emulate hgemm_naive_bf16 again"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_one_line(
    name: str, message: str, tmp_path: Path
) -> None:
    write_json(tmp_path / "bank_accesses.json", BankAccesses, [])
    options = ["--emulated", tmp_path / "bank_accesses.json", "--out-dir", tmp_path / "figures"]
    assert_one_line(run_module(PICTURES, name, *options), message)
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a_tile", r"matches lines \d+, .* of kernels/sgemm/vectorized.cu; it must match one"),
        ("c_tile", "matches no line of"),
        ("(", "is no regular expression"),
    ],
)
def test_a_line_of_the_list_matches_one_of_the_source(
    line: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "list.yaml"
    access = f"{{variant: sgemm_vectorized, says: s, line: '{line}'}}"
    path.write_text(f"x: {{title: T, text: t, accesses: [{access}]}}\n")
    with refused(message):
        bank_pictures.load(catalogue.load(), path)
        bank_pictures.source_line(KERNELS["sgemm_vectorized"], line)
