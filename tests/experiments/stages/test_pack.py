"""Going on from machine to machine: a pack is whole, of one commit and one GPU model, or it is refused in one line."""

from __future__ import annotations

import fcntl
import io
import json
import os
import resource
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import ROOT, environment

from contracts import UserError
from experiments.gpu.discovery import Gpu
from experiments.stages import pack, provenance
from experiments.stages.store import Measurement, Place, Store

COMMIT, GPU = "a" * 40, "NVIDIA H100 80GB HBM3"
TABLES = ("dispatch.csv", "tuned.json")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's folder with three measurements (of a clean tree, of one with changes, and from before that was kept),
    a table of `all`, and two of targets of their own."""
    folder = tmp_path / "h100"
    for problem, commit in (("64x64x64,alpha=0.5,beta=-1e-05", "c" * 40), ("128x128x128", None), ("256x256x256", None)):
        monkeypatch.setattr(provenance, "clean_commit", lambda commit=commit: commit)
        place = Place("bench", "sgemm_naive", f"{problem}-uniform-boost")
        Store(folder / "measured").keep(place, Measurement({}, "0" * 8))
    (older,) = folder.rglob("256x256x256-*.json")
    older.write_text(
        json.dumps({key: value for key, value in json.loads(older.read_text()).items() if key != "commit"})
    )
    for name in ("windows.csv", *TABLES):
        (folder / name).write_text(f"of {name}\n")
    return folder


@pytest.fixture
def packed(results: Path, tmp_path: Path) -> Path:
    out = tmp_path / "h100.measured.tar.xz"
    assert pack.write(results, out, COMMIT, GPU) == 3
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_goes_on_elsewhere_with_all_that_was_measured(results: Path, packed: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    assert pack.unpack(pack.read(packed), there) == 5
    there_now, here = contents(there), contents(results)
    assert there_now.keys() == here.keys() - {"windows.csv"}
    assert all(there_now[name] == here[name] for name in TABLES)
    for name in there_now.keys() - set(TABLES):
        assert json.loads(there_now[name]) == {"commit": COMMIT} | json.loads(here[name])
    commits = {path.name.partition("x")[0]: json.loads(path.read_text())["commit"] for path in there.rglob("*-*.json")}
    assert commits == {"64": "c" * 40, "128": None, "256": COMMIT}
    assert [one["commits"] for one in provenance.sessions(there / "measured")] == [[COMMIT, "c" * 40]]
    assert pack.unpack(pack.read(packed), there) == 0  # and a second time nothing is added
    own = Place("bench", "sgemm_naive", "512x512x512-uniform-boost")
    Store(there / "measured").keep(own, Measurement({}, "1" * 8))
    assert pack.write(there, packed, COMMIT, GPU) == 4


def test_what_a_sweep_found_is_there_before_a_run_is_planned(packed: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    there.mkdir()
    (there / "dispatch.csv").write_text("this machine's own\n")
    assert pack.unpack(pack.read(packed), there, tables_only=True) == 1
    assert contents(there) == {"dispatch.csv": b"this machine's own\n", "tuned.json": b"of tuned.json\n"}


def test_another_gpu_is_one_line_and_another_commit_is_named(
    packed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pack, "git", lambda *_: "b" * 40)
    monkeypatch.setattr(pack.discovery, "gpu", lambda: Gpu("NVIDIA H200", "sm_90a", "580"))
    with pytest.raises(UserError) as error:
        pack.resumable(packed)
    assert str(error.value).startswith(f"{packed}: measured on {GPU}, and the GPU here is NVIDIA H200")
    assert "\n" not in str(error.value)
    monkeypatch.setattr(pack.discovery, "gpu", lambda: Gpu(GPU, "sm_90a", "580"))
    assert len(pack.resumable(packed).files) == 5
    assert "of commit aaaaaaaaaaaa, and this is bbbbbbbbbbbb" in caplog.text


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def no_archive(path: Path) -> None:
    path.write_text("measurements")


def rewritten(change: Callable[[dict[str, bytes]], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with tarfile.open(path) as archive:
            files = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
        change(files)
        with tarfile.open(path, "w:xz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    return spoil


def escape(files: dict[str, bytes]) -> None:
    """A member that would be written outside of the store, with its checksum."""
    manifest = json.loads(files["pack.json"])
    name = next(iter(manifest["files"]))
    files["../../outside.json"] = files.pop(name)
    manifest["files"]["../../outside.json"] = manifest["files"].pop(name)
    files["pack.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    "spoil",
    [
        cut,
        no_archive,
        lambda path: path.write_bytes(b""),
        rewritten(lambda files: files.pop("pack.json")),
        rewritten(lambda files: files.popitem()),
        rewritten(lambda files: files.update({next(name for name in files if name != "pack.json"): b"{}"})),
        rewritten(lambda files: files.update({"pack.json": b"[]"})),
        rewritten(escape),
    ],
)
def test_a_pack_that_is_cut_or_changed_is_one_line_and_nothing_is_copied(
    spoil: Callable[[Path], None], packed: Path, tmp_path: Path
) -> None:
    spoil(packed)
    with pytest.raises(UserError) as error:
        pack.unpack(pack.read(packed), tmp_path / "elsewhere")
    assert str(packed) in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "elsewhere").exists() and not (tmp_path / "outside.json").exists()


def test_a_pack_of_another_run_is_not_overwritten(packed: Path, tmp_path: Path) -> None:
    before = packed.read_bytes()
    other = tmp_path / "other"
    place = Place("bench", "sgemm_warptile", "64x64x64-uniform-boost")
    Store(other / "measured").keep(place, Measurement({}, "0" * 8))
    with pytest.raises(UserError, match=r"holds 5 files that this run does not have"):
        pack.write(other, packed, COMMIT, GPU)
    assert packed.read_bytes() == before


def test_two_that_pack_at_a_time_do_not_meet(results: Path, packed: Path) -> None:
    before, folder = packed.read_bytes(), os.open(packed.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another run is packing there"):
            pack.write(results, packed, COMMIT, GPU)
    finally:
        os.close(folder)
    assert packed.read_bytes() == before


def test_a_full_disk_leaves_the_pack_as_it_was(results: Path, packed: Path) -> None:
    """As the kernel says it, by a limit on the size of files."""
    before = packed.read_bytes()
    code = f"""
from pathlib import Path
from contracts import run_command
from experiments.stages import pack
run_command(lambda: pack.write(Path({str(results)!r}), Path({str(packed)!r}), {COMMIT!r}, {GPU!r}) and None)
"""
    done = subprocess.run(
        ["python", "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)),
    )
    assert done.returncode == 2 and done.stderr.startswith(f"error: cannot write {packed}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert packed.read_bytes() == before and [path.name for path in packed.parent.iterdir()] == ["h100", packed.name]


def test_nothing_to_pack_and_no_gpu_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="nothing was measured yet"):
        pack.write(tmp_path / "measured", tmp_path / "out.tar.xz", COMMIT, GPU)
    with pytest.raises(UserError, match="no NVIDIA GPU is visible here"):
        pack.gpu_here()
    monkeypatch.setattr(pack.discovery, "gpu", lambda: Gpu(GPU, "sm_90a", "580"))
    assert pack.gpu_here() == GPU


def test_only_a_committed_tree_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "git", lambda *_: COMMIT)
    monkeypatch.setattr(pack, "changed", lambda: " M kernels/sgemm/naive.cu")
    with pytest.raises(UserError, match="this tree differs from aaaaaaaaaaaa; commit the changes first"):
        pack.commit_of_tree()
    monkeypatch.setattr(pack, "changed", lambda: "")
    assert pack.commit_of_tree() == COMMIT
    monkeypatch.setattr(pack, "git", lambda *_: None)
    with pytest.raises(UserError, match="this is no git checkout"):
        pack.commit_of_tree()
