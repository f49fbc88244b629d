"""Pictures of bank conflicts of the catalogue's kernels: what they show is what the counters
count.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from helpers import ARCH, assert_one_line, json_dict, run_module

import ptxsim
from contracts import UserError, write_json
from contracts.rows import BankAccesses, BankPicture
from experiments.emulation import bank_pictures, launching
from kernels import catalogue
from ptxsim import banks
from ptxsim.count import wavefronts
from ptxsim.count.counters import Counters
from ptxsim.ptx.sources import places

COVERED = [
    "sgemm_smem_tile",  # 128-bit loads merged from scalar ones
    "sgemm_vectorized",
    "sgemm_at_swizzle_dbf_rw",
    "hgemm_naive_bf16",  # cp.async and ldmatrix
]


def count(parts) -> int:
    return sum(len(part.wavefronts) for part in parts)


@pytest.fixture(scope="module")
def kernels(builds):
    """A function: name in the catalogue to the kernel and its launch on one tile of C."""

    @functools.cache
    def get(name: str):
        launch = bank_pictures.small_launch(catalogue.load().kernels[name])
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
    stats = counters.by_instruction()
    counted = {s.instruction.pc: s for s in stats if s.wavefronts}
    known, drawn = places(kernel.program), {}
    for file, line in dict.fromkeys((known[pc][-1].file, known[pc][-1].line) for pc in counted):
        found = banks.accesses(kernel, line=line, file=file, **launch)
        assert [access.number for access in found] == list(range(1, found[0].of + 1))
        recorder = banks.Recorder({access.pc for access in found}, 0)
        kernel.launch(**launch, observers=[recorder])
        for access in found:
            pc = access.pc
            assert count(access.parts) == access.wavefronts
            waves = 0
            for warp in recorder.warps(pc):
                for e in recorder.of_warp(pc, warp):
                    parts = wavefronts.serve(
                        e.addresses, e.active, access.width, access.kind, e.source, e.reading
                    )
                    waves += count(parts)
            drawn[pc] = waves
            worst = max(counted[pc].ways)
            assert access.ways <= worst and access.width == counted[pc].width
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
    for picture in pictures.values():
        for wanted in picture.accesses:
            assert (
                bank_pictures.source_line(catalogue.load().kernels[wanted.variant], wanted.line) > 1
            )
    assert bank_pictures.load(catalogue.load(), chosen=["sgemm_naive"]) == {}


def test_the_swizzle_takes_the_conflict_away(builds, tmp_path: Path) -> None:
    files = []
    for name in bank_pictures.load(catalogue.load())["transposed_store"].variants:
        variant, pictures = (
            catalogue.load().kernels[name],
            bank_pictures.load(catalogue.load()).values(),
        )
        recorded = bank_pictures.recorded(variant, launching.load(variant, builds(name)), pictures)
        files.append(tmp_path / name / "bank_accesses.json")
        write_json(files[-1], BankAccesses, recorded)
    options = ["--emulated", *files, "--out-dir", tmp_path / "figures"]
    done = run_module("experiments.emulation.bank_pictures", "transposed_store", *options)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "figures" / "banks_transposed_store.json"
    before, after = json_dict(out, BankPicture)["accesses"]
    assert (before["wavefronts"], before["ideal"]) == (2, 1) and (
        after["wavefronts"],
        after["ideal"],
    ) == (1, 1)
    done = run_module("analysis", "banks", out)
    assert done.returncode == 0, done.stderr
    svg = out.with_suffix(".svg").read_text()
    assert before["summary"] in svg and out.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    lanes = [
        word["lanes"][0]
        for part in before["parts"]
        for words in part["wavefronts"]
        for word in words
    ]
    assert all(f">{lane}<" in svg or f">{lane}+<" in svg for lane in lanes)
    # where none are recorded: the same picture
    options = ["--arch", ARCH, "--out-dir", tmp_path / "from_sources"]
    done = run_module("experiments.emulation.bank_pictures", "transposed_store", *options)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == (tmp_path / "from_sources" / out.name).read_bytes()


def test_wrong_entries_are_reported_in_one_line(tmp_path: Path) -> None:
    write_json(tmp_path / "bank_accesses.json", BankAccesses, [])
    options = ["--emulated", tmp_path / "bank_accesses.json", "--out-dir", tmp_path / "figures"]
    done = run_module("experiments.emulation.bank_pictures", "transposed_stor", *options)
    assert_one_line(done, "unknown picture 'transposed_stor'", "nearest: transposed_store")
    done = run_module("experiments.emulation.bank_pictures", "ldmatrix", *options)
    assert_one_line(done, "no access of picture ldmatrix", "emulate hgemm_naive_bf16 again")
    assert not (tmp_path / "figures").exists()
    variant = catalogue.load().kernels["sgemm_vectorized"]
    with pytest.raises(
        UserError, match=r"matches lines \d+, .* of kernels/sgemm/vectorized.cu; it must match one"
    ):
        bank_pictures.source_line(variant, "a_tile")
    with pytest.raises(UserError, match="matches no line of"):
        bank_pictures.source_line(variant, "c_tile")
    path = tmp_path / "list.yaml"
    path.write_text(
        "x: {title: T, text: t, accesses: [{variant: sgemm_vectorized, says: s, line: '('}]}\n"
    )
    with pytest.raises(UserError, match="is no regular expression"):
        bank_pictures.load(catalogue.load(), path)
