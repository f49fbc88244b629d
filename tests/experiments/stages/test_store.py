"""What is kept of measurements: found where it serves, measured again where it does not, and never half there."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import UserError
from contracts.samples import samples_table
from experiments import declarations
from experiments.declarations import Item, Protocol
from experiments.stages import bench
from experiments.stages import store as storing
from experiments.stages.store import Measurement, Place, Store
from kernels import catalogue
from kernels.problem import ProblemSpec

PLACE = Place("bench", "sgemm_naive", "64x64x64-uniform-boost")
BASIS = {"code": "a"}
PROTOCOL = declarations.Experiment("e", "t", "q?", ()).protocol


def kept(store: Store, session: str = "0000000a", **changes: object) -> Measurement:
    one = replace(Measurement(BASIS, session, {"windows": [{"n": 64}]}, "a note"), **changes)
    return store.keep(PLACE, one)


def test_what_is_kept_is_found_with_all_that_it_had(tmp_path: Path) -> None:
    store = Store(tmp_path)
    head = {"experiment": "", "variant": "v", "m": 64, "n": 64, "k": 64, "alpha": 1.0, "beta": 0.0}
    head |= {"clock_policy": "boost", "data": "uniform", "process": 0}
    columns = head | {"window": "worklog", "role": "variant", "index": np.arange(3), "time_us": np.array([1.0, 2, 3])}
    columns |= {"sm_clock_mhz": np.full(3, 1500, np.float32), "kept": np.ones(3, bool), "reason": None}
    one = kept(store, samples=samples_table(3, columns))
    found = store.find(PLACE, BASIS.__eq__)
    assert found is not None and found.samples is not None and one.samples is not None
    assert found.samples.equals(one.samples) and found.rows == {"windows": [{"n": 64}]}
    assert found.note == "a note" and found.measured
    assert store.find(PLACE, {"code": "b"}.__eq__) is None
    assert store.find(replace(PLACE, item="65x65x65"), BASIS.__eq__) is None


def test_the_first_that_serves_is_found(tmp_path: Path) -> None:
    for session, source in (("0000000c", "old"), ("0000000b", "a"), ("0000000a", "a")):
        kept(Store(tmp_path / session), session, basis={"code": source})
        shutil.copytree(tmp_path / session, tmp_path / "joined", dirs_exist_ok=True)
    found = Store(tmp_path / "joined").find(PLACE, BASIS.__eq__)
    assert found is not None and found.session == "0000000b"


def test_of_two_that_measured_the_same_the_first_is_kept_and_both_get_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = kept(store, note="first")
    second = kept(store, note="second")
    assert first == second and second.note == "first"
    other = kept(store, basis={"code": "b"}, note="third")
    assert other.note == "third" and store.find(PLACE, BASIS.__eq__) is None


def test_what_another_harness_measured_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "hash_of_cubin", lambda content: content.hex())
    found = []
    for folder in (tmp_path / "one", tmp_path / "another"):
        folder.mkdir()
        (folder / "harness.cubin").write_bytes(folder.name.encode())
        found.append(storing.versions(folder))
    assert found[0] != found[1] and found[0] | {"harness": ""} == found[1] | {"harness": ""}


def test_samples_of_another_measurement_are_refused_and_a_cut_file_is_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    columns = {
        "experiment": "",
        "variant": "v",
        "m": 1,
        "n": 1,
        "k": 1,
        "alpha": 1.0,
        "beta": 0.0,
        "clock_policy": "boost",
        "data": "zeros",
        "process": 0,
    }
    columns |= {"window": "worklog", "role": "variant", "index": np.arange(1), "time_us": np.ones(1)}
    columns |= {"sm_clock_mhz": np.ones(1, np.float32), "kept": np.ones(1, bool), "reason": None}
    kept(store, samples=samples_table(1, columns))
    (document,) = tmp_path.rglob("*.json")
    (parquet,) = tmp_path.rglob("*.parquet")
    whole = parquet.read_bytes()
    parquet.write_bytes(whole[:-1])
    with pytest.raises(UserError, match="not the samples that belong to"):
        store.find(PLACE, BASIS.__eq__)
    parquet.write_bytes(whole)
    document.write_text(document.read_text()[:40])
    with pytest.raises(UserError) as error:
        store.find(PLACE, BASIS.__eq__)
    assert str(document) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "covers"),
    [
        ({}, True),
        ({"window_s": 0.1}, True),
        ({"samples": 1000}, False),
        ({"precision": 0.01}, True),
        ({"precision": 0.0001}, False),
        ({"power_precision": 0.001}, False),
        ({"flush_l2": False}, False),
        ({"worklog_budget_s": 1.0}, False),
    ],
)
def test_a_measurement_serves_who_asks_for_no_more(changes: dict[str, float], covers: bool) -> None:
    asked = replace(PROTOCOL, **changes)
    assert (PROTOCOL.flush_l2 == asked.flush_l2 and PROTOCOL.covers(asked)) is covers
    joined = PROTOCOL.joined(asked)
    assert joined.covers(PROTOCOL)


def test_an_item_has_the_protocol_that_serves_every_experiment_of_a_run() -> None:
    """What several experiments ask for is measured once, so that one measurement must serve them all."""
    loaded = {name: declarations.load(name) for name in declarations.names()}
    shared: dict[tuple[str, ProblemSpec, str], list[Protocol]] = {}
    for experiment in loaded.values():
        if not experiment.by_name:
            for item in declarations.items(experiment, experiment.variants, "boost"):
                assert item.protocol.covers(experiment.protocol)
                shared.setdefault((item.variant, item.problem, item.data), []).append(item.protocol)
    assert sum(len(protocols) > 1 for protocols in shared.values()) > 20
    assert all(len(set(protocols)) == 1 for protocols in shared.values())


def test_a_stricter_protocol_or_another_code_is_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storing, "code_of", lambda entry, build_dir: f"code of {entry.name}")
    monkeypatch.setattr(storing, "versions", lambda build_dir: {"gpu": "H100", "harness": "a"})
    item = Item("sgemm_naive", ProblemSpec.square(64), "uniform", "boost", PROTOCOL)
    asked = bench.Asked(catalogue.load(), tmp_path)
    basis = json.loads(json.dumps(bench.basis_of(item, asked)))  # as it is read from its file
    serves = bench._serves(item, asked)
    assert serves(basis) and not serves(basis | {"code": "other"}) and not serves(basis | {"baseline": "other"})
    assert not bench._serves(replace(item, protocol=replace(PROTOCOL, samples=999)), asked)(basis)
    locked = replace(item, clock_policy="locked")
    other = json.loads(json.dumps(bench.basis_of(locked, replace(asked, sm_mhz=1400))))
    assert not bench._serves(locked, replace(asked, sm_mhz=1500))(other)
