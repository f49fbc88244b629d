"""Keeps what was measured, one file a measurement, so that nothing is measured twice and a run that
is cut goes on. A job leaves a manifest of its measurements, of which
`experiments.stages.tables` writes the tables.

    results/h200/measured/bench/sgemm_warptile/4096x4096x4096-uniform-boost.1f0c22d9.json (and .parquet: its samples)

A measurement belongs to a variant, a problem, a kind of data and a clock policy, not to the
experiment that asked for it. It serves as long as its `fingerprint`, what the result rests on, is the
same as today's: the kernel's machine code and launch, the library's version, the machine code of
the harness, the GPU's model. No text of a source is in it. The folder can be copied: on another
machine of the same GPU model a run goes on from it. The last part of a name is the session that it
comes from (`experiments.gpu.session.name_of`).
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contracts import UserError, read_json, write_json
from contracts.files import LIMIT_BYTES, checksum, read_bytes
from contracts.rows import Checks, Manifest, MeasuredRows, StoredMeasurement
from experiments.stages import provenance, toolchain
from experiments.stages.machine_code import code_of, hash_of_cubin
from kernels.catalogue import Baseline, Entry

if TYPE_CHECKING:
    import pyarrow as pa

HARNESS = "harness.cubin"  # in the build folder
PACKAGE = {  # that brings a baseline's library
    "cublas": "nvidia-cublas",
    "cublaslt": "nvidia-cublas",
    "torch": "torch",
    "triton": "triton",
}
FOLDER = "measured"  # of a machine's results
Fingerprint = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Key:
    """What a measurement is of: the stage that makes it, the catalogue's entry, and a name for the
    rest.
    """

    stage: str
    variant: str
    item: str


@dataclass(frozen=True)
class Measurement:
    """One measurement. `path` and the time of `measured` (UTC) are filled in when it is stored.

    path: of its file in the store, without suffix.
    """

    fingerprint: Fingerprint
    session: str
    rows: MeasuredRows = field(default_factory=MeasuredRows)
    note: str = ""
    samples: pa.Table | None = None
    measured: str = ""
    path: str = ""


class Store:
    """A folder of measurements."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, key: Key, serves: Callable[[Fingerprint], bool]) -> Measurement | None:
        """Return the first measurement of this key whose fingerprint serves."""
        paths = (self.folder / key.stage / key.variant).glob(f"{key.item}.*.json")
        stored = map(self._read, paths)
        return min(
            (m for m in stored if serves(m.fingerprint)), key=lambda m: m.measured, default=None
        )

    def at(self, path: str) -> Measurement:
        """Return the measurement at a path that a manifest names.

        Raises `UserError` where it is gone.
        """
        return self._read(self.folder / f"{path}.json")

    def keep(self, key: Key, new: Measurement) -> Measurement:
        """Write a measurement, whole or not at all: its samples come first, and are nothing without
        the other file.

        Of two jobs that measured the same at a time, be it on two GPUs, the first one's is kept,
        and what both get back.
        """
        with self._alone():
            return self.find(key, new.fingerprint.__eq__) or self._write(key, new)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Until the block ends, nobody else writes here; where the file system has no locks, nobody
        is kept out.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, key: Key, new: Measurement) -> Measurement:
        path = self.folder / key.stage / key.variant / f"{key.item}.{new.session}.json"
        document = {
            **asdict(key),
            "fingerprint": dict(new.fingerprint),
            "session": new.session,
            "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "rows": new.rows.model_dump(exclude_unset=True),
            "note": new.note,
            "driver": toolchain.known_or_found(None, "", None)["driver"],
            "commit": provenance.clean_commit(),
        }
        if new.samples is not None:
            from contracts.samples import write_samples

            parquet = path.with_suffix(".parquet")
            write_samples(parquet, [new.samples])
            document["samples_sha256"] = checksum(read_bytes(parquet, LIMIT_BYTES))
        write_json(path, StoredMeasurement, document)
        return self._read(path)

    def _read(self, path: Path) -> Measurement:
        stored = read_json(path, StoredMeasurement)
        samples = None
        if stored.samples_sha256:
            from contracts.samples import read_samples

            parquet = path.with_suffix(".parquet")
            if checksum(read_bytes(parquet, LIMIT_BYTES)) != stored.samples_sha256:
                raise UserError(
                    f"{parquet}: not the samples that belong to {path.name}; remove both files"
                )
            samples = read_samples(parquet)
        where = path.relative_to(self.folder).as_posix().removesuffix(".json")
        return Measurement(
            stored.fingerprint,
            stored.session,
            stored.rows,
            stored.note,
            samples,
            stored.measured,
            where,
        )


def run_kept(
    store: Store,
    items: Sequence[T],
    key: Callable[[T], Key],
    serves: Callable[[T], Callable[[Fingerprint], bool]],
    measure: Callable[[list[T], dict[Key, Measurement]], Iterable[tuple[T, Measurement | str]]],
) -> list[tuple[T, Measurement]]:
    """Return each item with its measurement: the stored one, or one that is made now and stored.

    serves: whether a stored fingerprint does for an item. measure: takes the items that lack a
    measurement, and all measurements so far by key; it yields each item with its measurement, or
    with the reason why it has none. One that comes from the store is not stored again.

    Raises `UserError` with the first of these reasons, once the others are measured.
    """
    found = ((key(item), store.find(key(item), serves(item))) for item in items)
    results = {item_key: stored for item_key, stored in found if stored}
    reasons = []
    for item, result in measure([item for item in items if key(item) not in results], results):
        if isinstance(result, str):
            reasons.append(result)
        else:
            stored = result if result.measured else store.keep(key(item), result)
            results[key(item)] = stored
    if reasons:
        raise UserError(few(reasons))
    return [(item, results[key(item)]) for item in items if key(item) in results]


def few(reasons: Sequence[str]) -> str:
    """Return the first three of these reasons as one line, and how many more there are."""
    more = [f"and {len(reasons) - 3} more"] if len(reasons) > 3 else []
    return "; ".join([*reasons[:3], *more])


def write_manifest(
    path: Path,
    measurements: Iterable[Measurement],
    experiment: str = "",
    left_out: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write which stored measurements a job made or found, and what was left out, by stage."""
    manifest = Manifest(
        experiment=experiment,
        measurements=list(dict.fromkeys(measurement.path for measurement in measurements)),
        left_out={stage: list(reasons) for stage, reasons in (left_out or {}).items() if reasons},
    )
    write_json(path, Manifest, manifest)


def failed_checks(store: Store, manifests: Iterable[Path]) -> dict[str, list[Checks]]:
    """Return the checks that did not pass, by variant, of the measurements that manifests name."""
    failed: dict[str, list[Checks]] = {}
    for path in manifests:
        for measurement in map(store.at, read_json(path, Manifest).measurements):
            for row in measurement.rows.checks:
                if not row.passed:
                    failed.setdefault(row.variant, []).append(row)
    return failed


@functools.cache
def versions(build_dir: Path | None) -> dict[str, str | None]:
    """The GPU's model, and the hash of the machine code of the harness in `build_dir`, if there is
    one.
    """
    gpu = toolchain.known_or_found(None, "", None)["gpu"]
    return {
        "gpu": gpu,
        "harness": hash_of_cubin((build_dir / HARNESS).read_bytes())[:16] if build_dir else None,
    }


def fingerprint_of(entry: Entry, build_dir: Path) -> dict[str, Any]:
    """What every measurement of this entry rests on.

    It is the machine code and launch of its kernels, or its library's version; the GPU's model; and
    the machine code of the harness, which fills, checks and times.
    """
    library = (
        {"library": provenance.packages().get(PACKAGE[entry.library])}
        if isinstance(entry, Baseline)
        else {}
    )
    return {"code": code_of(entry, build_dir), **library, **versions(build_dir)}


def require_gpu(folder: Path, gpu: str) -> None:
    """Raises `UserError` where what is kept in `folder` was measured on another GPU model than
    `gpu`.
    """
    path = next(folder.rglob("*.json"), None)
    known = read_json(path, StoredMeasurement).fingerprint.get("gpu", gpu) if path else gpu
    if known != gpu:
        raise UserError(
            f"{folder}: measured on {known}, and the GPU here is {gpu}; allowed: measurements of its model"
        )
