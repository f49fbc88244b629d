"""The dtypes of matrices and sums, the only list of them, and the three that a GEMM has."""

from __future__ import annotations

import re
from dataclasses import dataclass

SUMS = "fp32"  # of a GEMM that names no other


@dataclass(frozen=True)
class Dtype:
    """One dtype of a matrix's elements or of a sum."""

    name: str
    c_type: str  # an element in CUDA C++
    numpy: str  # an element in NumPy, where ml_dtypes registers what NumPy lacks, and in torch
    bits: int  # of an element in memory
    unit_roundoff: float  # of an element as it is stored, or of a sum: 2^-p
    tensor: bool  # whether it is multiplied on tensor cores
    cuda_type: int  # cudaDataType, of library_types.h
    cublas_compute: int  # cublasComputeType_t, of cublas_api.h, for fp32 sums
    narrowed_bits: int = 0  # low bits of an input that the multiplication does not see
    # What a tensor core cuts off a sum of its products, relative to the largest; 0: the sum's
    # roundoff covers it
    step_roundoff: float = 0.0
    # the dtype with the same elements in memory; its own name where there is no other
    stored_as: str = ""
    # keys of machine.json's ceilings, of which the highest is its own
    ceilings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of an element in memory."""
        return self.bits // 8


CUBLAS_COMPUTE_32F = 68
CUBLAS_COMPUTE_32F_FAST_TF32 = 77
_FMA = ("fp32_fma_flop_per_clock_sm",)
_MMA = ("bf16_mma_flop_per_clock_sm", "bf16_wgmma_flop_per_clock_sm")
_ALL = (
    Dtype(
        name="fp32",
        c_type="float",
        numpy="float32",
        bits=32,
        unit_roundoff=2**-24,
        tensor=False,
        cuda_type=0,  # CUDA_R_32F
        cublas_compute=CUBLAS_COMPUTE_32F,
        stored_as="fp32",
        ceilings=_FMA,
    ),
    Dtype(
        name="tf32",
        c_type="float",
        numpy="float32",
        bits=32,
        unit_roundoff=2**-24,
        tensor=True,
        cuda_type=0,  # CUDA_R_32F
        cublas_compute=CUBLAS_COMPUTE_32F_FAST_TF32,
        narrowed_bits=13,
        stored_as="fp32",
    ),
    Dtype(
        name="bf16",
        c_type="__nv_bfloat16",
        numpy="bfloat16",
        bits=16,
        unit_roundoff=2**-8,
        tensor=True,
        cuda_type=14,  # CUDA_R_16BF
        cublas_compute=CUBLAS_COMPUTE_32F,
        stored_as="bf16",
        ceilings=_MMA,
    ),
    Dtype(
        name="fp16",
        c_type="__half",
        numpy="float16",
        bits=16,
        unit_roundoff=2**-11,
        tensor=True,
        cuda_type=2,  # CUDA_R_16F
        cublas_compute=CUBLAS_COMPUTE_32F,
        stored_as="fp16",
        ceilings=_MMA,
    ),
    Dtype(
        name="fp8_e4m3",
        c_type="__nv_fp8_e4m3",
        numpy="float8_e4m3fn",
        bits=8,
        unit_roundoff=2**-4,
        tensor=True,
        cuda_type=28,  # CUDA_R_8F_E4M3
        cublas_compute=CUBLAS_COMPUTE_32F,
        step_roundoff=2**-13,
        stored_as="fp8_e4m3",
    ),
    Dtype(
        name="fp8_e5m2",
        c_type="__nv_fp8_e5m2",
        numpy="float8_e5m2",
        bits=8,
        unit_roundoff=2**-3,
        tensor=True,
        cuda_type=29,  # CUDA_R_8F_E5M2
        cublas_compute=CUBLAS_COMPUTE_32F,
        step_roundoff=2**-13,
        stored_as="fp8_e5m2",
    ),
)
_BY_NAME = {one.name: one for one in _ALL}


def dtypes() -> dict[str, Dtype]:
    """Every dtype by name."""
    return _BY_NAME


def types_pattern() -> str:
    """A regular expression of `Types.name`: a dtype for A and B, then one for C, then one for the
    sums.
    """
    one = f"({'|'.join(_BY_NAME)})"
    return f"^{one}(?:_{one}(?:_{one})?)?$"


@dataclass(frozen=True)
class Types:
    """The dtypes of one GEMM: of A and B, of the sums, of C."""

    ab: Dtype
    accumulate: Dtype
    c: Dtype

    @classmethod
    def named(cls, name: str) -> Types:
        """The types of this `name`, in which catalogue and tables have them: "bf16", or see
        `name`.
        """
        found = re.fullmatch(types_pattern(), name)
        assert found, name
        ab, c, accumulate = found.groups()
        return cls(
            dtypes()[ab], dtypes()[accumulate or SUMS], dtypes()[c or dtypes()[ab].stored_as]
        )

    @property
    def name(self) -> str:
        """The dtype of A and B, then that of C where it is another, and that of the sums where it
        is not fp32: "fp16", "fp8_e4m3_bf16", "fp16_fp16_fp16"."""
        usual = self.accumulate.name == SUMS
        c = [] if usual and self.c.name == self.ab.stored_as else [self.c.name]
        return "_".join([self.ab.name, *c, *([] if usual else [self.accumulate.name])])

    def of(self, matrix: str) -> Dtype:
        """The dtype of A, B or C."""
        return self.c if matrix == "C" else self.ab
