"""Triton's kernel without a GPU, where there is Triton: each configuration compiles for Hopper, and
fits.
"""

from __future__ import annotations

from typing import Any

import pytest

from contracts.dtypes import dtypes
from experiments.gpu import discovery

pytestmark = pytest.mark.skipif(
    bool(discovery.missing_libraries()), reason=str(discovery.missing_libraries())
)

SHARED_BYTES = 227 * 1024  # of a block on an H100 or H200, at most
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # as Triton names them


def compiled(dtype: str, config: Any) -> Any:
    """The kernel of one configuration for sm_90, and what Triton reports about it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from experiments.gpu import triton_gemm

    kind = TYPES[dtypes()[dtype].numpy]
    blocks = {"a": (config.m, config.k), "b": (config.k, config.n), "c": (config.m, config.n)}
    constants = {
        "BLOCK_M": config.m,
        "BLOCK_N": config.n,
        "BLOCK_K": config.k,
        "GROUP_M": triton_gemm.GROUP_M,
    }
    constants |= {
        "PERSISTENT": config.persistent,
        "PRECISION": triton_gemm.precision(dtypes()[dtype]),
    }
    signature = {
        name: f"tensordesc<{kind}[{rows}, {columns}]>" for name, (rows, columns) in blocks.items()
    }
    signature |= dict.fromkeys("mnk", "i32") | dict.fromkeys(constants, "constexpr")
    source = ASTSource(
        triton_gemm.gemm, signature, constants, {(i,): [["tt.divisibility", 16]] for i in (3, 4, 5)}
    )
    options = {"num_warps": config.warps, "num_stages": config.stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16"])
def test_every_configuration_compiles_for_hopper_with_its_instructions(dtype: str) -> None:
    from experiments.gpu import triton_gemm

    for config in triton_gemm.configs(dtypes()[dtype]):
        kernel = compiled(dtype, config)
        assert kernel.metadata.shared <= SHARED_BYTES, config
        assert "cp.async.bulk.tensor.2d" in kernel.asm["ptx"], config
        assert ("wgmma.mma_async" in kernel.asm["ptx"]) == dtypes()[dtype].tensor, config
