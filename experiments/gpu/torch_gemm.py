"""Binds torch.matmul like a catalogue kernel."""

from __future__ import annotations

from typing import Any

from contracts import UserError
from experiments.gpu.device import Gpu, words_at
from experiments.gpu.fastest_call import Call
from kernels.catalogue import Baseline, Problem


class TorchGemm:
    """torch.matmul(A, B, out=C) on the harness's stream and memory."""

    def __init__(self, gpu: Gpu, entry: Baseline) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UserError(
                f"{entry.name} needs a torch that is built for CUDA; this one is {torch.__version__}"
            )
        self.torch, self.entry = torch, entry
        torch.backends.cuda.matmul.allow_tf32 = entry.dtype == "tf32"
        stream: Any = torch.cuda.ExternalStream  # Its constructor has no types.
        torch.cuda.set_stream(stream(int(gpu.stream.handle)))

    def _matrix(self, address: int, rows: int, cols: int, ld: int) -> Any:
        torch = self.torch
        dtype = self.entry.types.ab  # C is of it, too.
        words = words_at(address, rows, cols, ld, dtype.bytes)
        return torch.as_tensor(words, device="cuda").view(getattr(torch, dtype.numpy))

    def matrices(self, problem: Problem, a: int, b: int, c: int) -> tuple[Any, Any, Any]:
        """Return A, B and C as tensors. Raises `UserError` for a problem that is not taken."""
        p = problem
        if reason := self.entry.unsupported_reason(p, {"A": a, "B": b, "C": c}):
            raise UserError(reason)
        if (p.alpha, p.beta) != (1.0, 0.0):
            raise UserError(
                f"{self.entry.name} takes alpha = 1, beta = 0 only, not {p.alpha}, {p.beta}"
            )
        left, right, out = (
            self._matrix(x, *p.stored[name]) for x, name in ((a, "A"), (b, "B"), (c, "C"))
        )
        return left, right if p.b_layout == "row" else right.T, out

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Call:
        """Return a call for this problem; alpha = 1 and beta = 0 only."""
        left, right, out = self.matrices(problem, a, b, c)
        matmul = self.torch.matmul

        def call() -> None:
            matmul(left, right, out=out)

        return call
