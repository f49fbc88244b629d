"""The dtypes of matrices and sums, from contracts/dtypes.yaml, and the three of them that a GEMM has."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from contracts.schema_files import DTYPES, types_pattern
from contracts.tables import read_yaml

SUMS = "fp32"  # of a GEMM that names no other


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
    step_roundoff: float = 0.0
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


@dataclass(frozen=True)
class Types:
    """The dtypes of one GEMM: of A and B, of the sums, of C."""

    ab: Dtype
    accumulate: Dtype
    c: Dtype

    @classmethod
    def named(cls, name: str) -> Types:
        """The types of this `name`, in which catalogue and tables have them: "bf16", or see `name`."""
        found = re.fullmatch(types_pattern(), name)
        assert found, name
        ab, c, accumulate = found.groups()
        return cls(dtypes()[ab], dtypes()[accumulate or SUMS], dtypes()[c or dtypes()[ab].stored_as])

    @property
    def name(self) -> str:
        """The dtype of A and B, then that of C where it is another, and that of the sums where it is not fp32:
        "fp16", "fp8_e4m3_bf16", "fp16_fp16_fp16"."""
        usual = self.accumulate.name == SUMS
        c = [] if usual and self.c.name == self.ab.stored_as else [self.c.name]
        return "_".join([self.ab.name, *c, *([] if usual else [self.accumulate.name])])

    def of(self, matrix: str) -> Dtype:
        """The dtype of A, B or C."""
        return self.c if matrix == "C" else self.ab
