"""The dtypes of a GEMM's matrices, from contracts/dtypes.yaml."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from contracts.schema_files import DTYPES
from contracts.tables import read_yaml


@dataclass(frozen=True)
class Dtype:
    """One dtype; contracts/schemas/dtypes.schema.yaml explains the fields."""

    name: str
    c_type: str
    numpy: str
    bits: int
    unit_roundoff: float
    tensor: bool
    cuda_type: int
    cublas_compute: int
    narrowed_bits: int = 0
    stored_as: str = ""
    ceilings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of an element in memory."""
        return self.bits // 8


@functools.cache
def dtypes() -> dict[str, Dtype]:
    """Every dtype by name, in the order of the file."""
    found = {}
    for name, entry in read_yaml(DTYPES, "dtypes").items():
        fields = {"stored_as": name, **entry, "ceilings": tuple(entry.get("ceilings", ()))}
        found[name] = Dtype(name=name, **fields)
    return found
