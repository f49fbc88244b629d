"""Keeps what was measured, one file a measurement, so that nothing is measured twice and a run that
is cut goes on.

    results/h200/measured/bench/sgemm_warptile/4096x4096x4096-uniform-boost.1f0c22d9.json (and .parquet: its samples)

A measurement belongs to a variant, a problem, a kind of data and a clock policy, not to the
experiment that asked for it. It serves as long as its `basis`, what the result rests on, is the
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
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contracts import UserError, read_json, write_json
from contracts.files import LIMIT_BYTES, checksum, read_bytes
from contracts.rows import StoredMeasurement
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
Basis = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """What a measurement is of: the stage that makes it, the catalogue's entry, and a name for the
    rest.
    """

    stage: str
    variant: str
    item: str


@dataclass(frozen=True)
class Measurement:
    """What is kept: rows of recorded tables (without what an experiment adds)."""

    basis: Basis
    session: str
    rows: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    note: str = ""
    samples: pa.Table | None = None
    measured: str = ""  # UTC, filled in when it is kept


class Store:
    """A folder of measurements."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, place: Place, serves: Callable[[Basis], bool]) -> Measurement | None:
        """The first measurement of this place whose basis serves."""
        found = (self.folder / place.stage / place.variant).glob(f"{place.item}.*.json")
        measurements = [one for path in found if serves((one := _read(path)).basis)]
        return min(measurements, key=lambda one: one.measured, default=None)

    def keep(self, place: Place, one: Measurement) -> Measurement:
        """Write it, whole or not at all: its samples come first, and are nothing without the other
        file.

        Of two jobs that measured the same at a time, be it on two GPUs, the first one's is kept,
        and what both get back.
        """
        stem = self.folder / place.stage / place.variant / f"{place.item}.{one.session}"
        with self._alone():
            return self.find(place, one.basis.__eq__) or self._write(place, one, stem)

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

    def _write(self, place: Place, one: Measurement, stem: Path) -> Measurement:
        document = {
            "stage": place.stage,
            "variant": place.variant,
            "item": place.item,
            "basis": dict(one.basis),
            "session": one.session,
            "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "rows": {name: list(rows) for name, rows in one.rows.items()},
            "note": one.note,
            "driver": toolchain.known_or_found(None, "", None)["driver"],
            "commit": provenance.clean_commit(),
        }
        if one.samples is not None:
            from contracts.samples import write_samples

            parquet = Path(f"{stem}.parquet")
            write_samples(parquet, [one.samples])
            document["samples_sha256"] = checksum(read_bytes(parquet, LIMIT_BYTES))
        write_json(f"{stem}.json", StoredMeasurement, document)
        return _read(Path(f"{stem}.json"))


def run_kept(
    kept: Store,
    items: Sequence[T],
    key: Callable[[T], Place],
    serves: Callable[[T], Callable[[Basis], bool]],
    measure: Callable[[list[T], dict[Place, Measurement]], Iterable[tuple[T, Measurement | str]]],
) -> list[tuple[T, Measurement]]:
    """Return each item with its measurement: the stored one, or one that is made now and stored.

    serves: whether a stored basis does for an item. measure: takes the items that lack a
    measurement, and all measurements so far by key; it yields each item with its measurement, or
    with the reason why it has none. One that comes from the store is not stored again.

    Raises `UserError` with the first of these reasons, once the others are measured.
    """
    found = ((key(item), kept.find(key(item), serves(item))) for item in items)
    results = {place: stored for place, stored in found if stored}
    reasons = []
    for item, result in measure([item for item in items if key(item) not in results], results):
        if isinstance(result, str):
            reasons.append(result)
        else:
            stored = result if result.measured else kept.keep(key(item), result)
            results[key(item)] = stored
    if reasons:
        more = [f"and {len(reasons) - 3} more"] if len(reasons) > 3 else []
        raise UserError("; ".join(reasons[:3] + more))
    return [(item, results[key(item)]) for item in items if key(item) in results]


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


def basis_of(entry: Entry, build_dir: Path) -> dict[str, Any]:
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
    known = read_json(path, StoredMeasurement).basis.get("gpu", gpu) if path else gpu
    if known != gpu:
        raise UserError(
            f"{folder}: measured on {known}, and the GPU here is {gpu}; allowed: measurements of its model"
        )


def _read(path: Path) -> Measurement:
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
    return Measurement(
        stored.basis, stored.session, stored.rows, stored.note, samples, stored.measured
    )


@contextlib.contextmanager
def opened(folder: Path | None) -> Iterator[Store]:
    """The store in `folder`; without one, an empty store that is gone when the block ends."""
    if folder:
        yield Store(folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Store(Path(temporary))
