"""What is kept of measurements: found where it serves, measured again where it does not, and never
half there.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from helpers import ROOT

from contracts import UserError, read_rows
from contracts.rows import Checks, MeasuredRows, archives
from contracts.samples import samples_table
from experiments import declarations
from experiments.declarations import Item, Protocol
from experiments.gpu import discovery
from experiments.gpu.worker import Failure
from experiments.stages import bench
from experiments.stages import store as storing
from experiments.stages.provenance import PACKAGES
from experiments.stages.store import Key, Measurement, Store
from kernels import catalogue
from kernels.catalogue import Baseline
from kernels.problem import ProblemSpec

KEY = Key("bench", "sgemm_naive", "64x64x64-uniform-boost")
FINGERPRINT = {"code": "a"}
CHECK = read_rows(archives(ROOT)[0] / "checks.csv", Checks)[0]
PROTOCOL = Protocol()


def kept(store: Store, session: str = "0000000a", **changes: object) -> Measurement:
    new = replace(
        Measurement(FINGERPRINT, session, MeasuredRows(checks=[CHECK]), "a note"), **changes
    )
    return store.keep(KEY, new)


def samples(count: int) -> pa.Table:
    """So many samples of one window."""
    columns = {
        "experiment": "",
        "variant": "v",
        "m": 64,
        "n": 64,
        "k": 64,
        "alpha": 1.0,
        "beta": 0.0,
    }
    columns |= {
        "clock_policy": "boost",
        "data": "uniform",
        "process": 0,
        "window": "worklog",
        "role": "variant",
    }
    columns |= {"index": np.arange(count), "time_us": np.arange(1.0, count + 1), "reason": None}
    columns |= {"sm_clock_mhz": np.full(count, 1500, np.float32), "kept": np.ones(count, bool)}
    return samples_table(count, columns)


def test_what_is_kept_is_found_with_all_that_it_had(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = kept(store, samples=samples(3))
    found = store.find(KEY, FINGERPRINT.__eq__)
    assert found is not None and found.samples is not None and one.samples is not None
    assert found.samples.equals(one.samples) and found.rows.checks == [CHECK]
    assert found.note == "a note" and found.measured
    assert store.find(KEY, {"code": "b"}.__eq__) is None
    assert store.find(replace(KEY, item="65x65x65"), FINGERPRINT.__eq__) is None


def test_the_first_that_serves_is_found(tmp_path: Path) -> None:
    for session, source in (("0000000c", "old"), ("0000000b", "a"), ("0000000a", "a")):
        kept(Store(tmp_path / session), session, fingerprint={"code": source})
        shutil.copytree(tmp_path / session, tmp_path / "joined", dirs_exist_ok=True)
    found = Store(tmp_path / "joined").find(KEY, FINGERPRINT.__eq__)
    assert found is not None and found.session == "0000000b"


def test_of_two_that_measured_the_same_the_first_is_kept_and_both_get_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = kept(store, note="first")
    second = kept(store, note="second")
    assert first == second and second.note == "first"
    other = kept(store, fingerprint={"code": "b"}, note="third")
    assert other.note == "third" and store.find(KEY, FINGERPRINT.__eq__) is None


def test_what_another_harness_measured_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "hash_of_cubin", lambda content: content.hex())
    found = []
    for folder in (tmp_path / "one", tmp_path / "another"):
        folder.mkdir()
        (folder / "harness.cubin").write_bytes(folder.name.encode())
        found.append(storing.versions(folder))
    assert found[0] != found[1] and found[0] | {"harness": ""} == found[1] | {"harness": ""}


def test_what_another_library_version_or_machine_code_measured_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library's entry alone has its version; each library is of a package whose version is
    recorded.
    """
    code, version = "1", "1.0"
    monkeypatch.setattr(storing, "code_of", lambda entry, build_dir: f"{entry.name} {code}")
    monkeypatch.setattr(storing, "versions", lambda build_dir: {"gpu": "H100", "harness": "a"})
    monkeypatch.setattr(storing.provenance, "packages", lambda: dict.fromkeys(PACKAGES, version))
    entries = catalogue.load()
    before = {name: storing.fingerprint_of(entry, tmp_path) for name, entry in entries.items()}
    version = "1.1"
    changed = {
        name
        for name, entry in entries.items()
        if storing.fingerprint_of(entry, tmp_path) != before[name]
    }
    assert changed == {name for name, entry in entries.items() if isinstance(entry, Baseline)}
    assert {*storing.PACKAGE.values()} <= {*PACKAGES}
    version, code = "1.0", "2"
    assert all(
        storing.fingerprint_of(entry, tmp_path) != before[name] for name, entry in entries.items()
    )


def test_samples_of_another_measurement_are_refused_and_a_cut_file_is_one_line(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    kept(store, samples=samples(1))
    (document,) = tmp_path.rglob("*.json")
    (parquet,) = tmp_path.rglob("*.parquet")
    whole = parquet.read_bytes()
    parquet.write_bytes(whole[:-1])
    with pytest.raises(UserError, match="not the samples that belong to"):
        store.find(KEY, FINGERPRINT.__eq__)
    parquet.write_bytes(whole)
    document.write_text(document.read_text()[:40])
    with pytest.raises(UserError) as error:
        store.find(KEY, FINGERPRINT.__eq__)
    assert str(document) in str(error.value) and "\n" not in str(error.value)


def test_a_copied_folder_serves_on_another_machine_of_its_gpu_model_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the stages ask of it there is what they asked here."""
    toolchain = {
        "nvcc": "13",
        "ptxas": "13",
        "host_compiler": "g++ 12",
        "cuobjdump": "13",
        "arch": "sm_90a",
    }
    here, there = tmp_path / "here", tmp_path / "there"

    def basis_on(gpu: str, driver: str) -> storing.Fingerprint:
        monkeypatch.setenv(discovery.KNOWN, json.dumps(toolchain | {"gpu": gpu, "driver": driver}))
        storing.versions.cache_clear()
        return {"code": "a", **storing.versions(None)}

    first = kept(Store(here), fingerprint=basis_on("NVIDIA H100", "570.1"), samples=samples(3))
    shutil.copytree(here, there)
    found = Store(there).find(KEY, basis_on("NVIDIA H100", "580.2").__eq__)
    assert found is not None and found.samples is not None
    assert found.samples.equals(first.samples) and found.measured == first.measured
    storing.require_gpu(there, "NVIDIA H100")
    storing.require_gpu(tmp_path / "none", "NVIDIA H100")
    assert Store(there).find(KEY, basis_on("NVIDIA H200", "570.1").__eq__) is None
    with pytest.raises(UserError) as error:
        storing.require_gpu(there, "NVIDIA H200")
    assert all(word in str(error.value) for word in ("NVIDIA H100", "NVIDIA H200", str(there)))
    storing.versions.cache_clear()


@pytest.mark.parametrize(
    ("changes", "covers"),
    [
        ({}, True),
        ({"window_s": 0.1}, True),
        ({"samples": 1000}, False),
        ({"precision": 0.01}, True),
        ({"precision": 0.0001}, False),
        ({"power_s": 1.0}, False),
        ({"flush_l2": False}, False),
    ],
)
def test_a_measurement_serves_who_asks_for_no_more(changes: dict[str, float], covers: bool) -> None:
    asked = replace(PROTOCOL, **changes)
    assert (PROTOCOL.flush_l2 == asked.flush_l2 and PROTOCOL.covers(asked)) is covers
    joined = PROTOCOL.joined(asked)
    assert joined.covers(PROTOCOL)


def test_an_item_has_the_protocol_that_serves_every_experiment_of_a_run() -> None:
    """What several experiments ask for is measured once, so that one measurement must serve them
    all.
    """
    of = {}
    for name in ("sgemm_ladder", "power_limit"):  # which alone reads the power
        experiment = declarations.load(name)
        for item in declarations.items(experiment, ["sgemm_t128x128x8"], "boost"):
            assert item.protocol.covers(experiment.protocol) and item.protocol.power_s > 0
            of[name, item.problem.n] = item.protocol
    assert of["sgemm_ladder", 4096] == of["power_limit", 4096]


def test_a_stricter_protocol_or_another_code_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(storing, "code_of", lambda entry, build_dir: f"code of {entry.name}")
    monkeypatch.setattr(storing, "versions", lambda build_dir: {"gpu": "H100", "harness": "a"})
    item = Item("sgemm_naive", ProblemSpec.square(64), "uniform", "boost", PROTOCOL)
    asked = bench.Request(catalogue.load(), tmp_path)
    fingerprint = json.loads(
        json.dumps(bench.fingerprint_of(item, asked))
    )  # as it is read from its file
    serves = bench._serves(item, asked)
    assert (
        fingerprint["code"] == "code of sgemm_naive"
        and fingerprint["baseline"]["code"] == "code of cublas_fp32"
    )
    assert (
        serves(fingerprint)
        and not serves(fingerprint | {"code": "other"})
        and not serves(fingerprint | {"baseline": "other"})
    )
    assert not bench._serves(replace(item, protocol=replace(PROTOCOL, samples=999)), asked)(
        fingerprint
    )
    older = fingerprint | {
        "protocol": fingerprint["protocol"] | {"least_samples": 10}
    }  # of another version
    assert not serves(older)
    locked = replace(item, clock_policy="locked")
    other = json.loads(json.dumps(bench.fingerprint_of(locked, replace(asked, sm_mhz=1400))))
    assert not bench._serves(locked, replace(asked, sm_mhz=1500))(other)


@pytest.mark.parametrize("known", [[], ["torch_matmul_fp32"], ["torch_matmul_fp32", "triton_fp32"]])
def test_libraries_are_imported_once_before_the_gpu_is_held_where_something_is_measured(
    known: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All processes of a job are forks of it: each has the GPU held around it, and ends before it
    is given back.
    """
    done: list[str] = []

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        done.append("hold")
        yield
        done.append("give back")

    def work_through(own: list[Item], opened: object) -> Iterator[tuple[Item, Failure]]:
        for item in own:
            done.append(f"{item.variant} {item.process}")
            yield item, Failure("the host's fault", of_kernel=False)

    monkeypatch.setattr(bench, "counts", lambda stored: True)
    one = Measurement({}, "0" * 8)
    kept = SimpleNamespace(find=lambda key, serves: one if key.variant in known else None)
    monkeypatch.setattr(bench, "Session", lambda: SimpleNamespace(name="1" * 8, held=held))
    monkeypatch.setattr(bench, "work_through", work_through)
    monkeypatch.setattr(bench, "fingerprint_of", lambda item, request: {})
    monkeypatch.setattr(bench, "import_early", lambda entry: done.append(f"import {entry.name}"))
    options = SimpleNamespace(
        catalogue=catalogue.load(), build_dir=tmp_path, sm_mhz=None, memory_mhz=None
    )
    names, square = ["torch_matmul_fp32", "triton_fp32"], ProblemSpec.square(64)
    items = [
        Item(name, square, "uniform", "boost", PROTOCOL, process)
        for process in (0, 1)
        for name in names
    ]
    left = [name for name in names if name not in known]
    with (
        contextlib.nullcontext() if not left else pytest.raises(UserError, match="the host's fault")
    ):
        bench.measured(items, options, kept)  # type: ignore[arg-type]
    assert done[: len(left)] == [f"import {name}" for name in left]
    turns = [["hold", *(f"{name} {process}" for name in left), "give back"] for process in (0, 1)]
    assert done[len(left) :] == ([step for turn in turns for step in turn] if left else [])
