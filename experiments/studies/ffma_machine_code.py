"""Rewrites loops in a cubin of sm_90, where ptxas would choose: which registers FFMAs read and
keep, where loads stand.

An instruction is 16 bytes. Bits of an FFMA: 16 to 23 the register that it writes, 24 to 31, 32 to
39 and 64 to 71 those that it reads (a, b and c of a * b + c); 122 to 124 keep a, b and c in the
operand's reuse cache. Held against nvdisasm by a test.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from contracts import UserError
from ptxsim.ptx import sass

NBYTES = 16
KEEPS = 0b1111 << 122
FIELDS = {"d": 16, "a": 24, "b": 32, "c": 64}  # first bit of 8
REUSE_BITS = {"a": 122, "b": 123, "c": 124}
LAST = 0.75  # Loads behind this part of a loop would be waited for at its end.


class Ffma(NamedTuple):
    """d = a * b + c on registers by number; `kept` names those of a, b and c that have .reuse."""

    d: int
    a: int
    b: int
    c: int
    kept: str = ""


def hot_loop(function: sass.Function) -> list[sass.Instruction]:
    """Return the instructions of the smallest loop that has the most FFMAs."""
    loops = [
        [i for block in function.blocks[target : block.number + 1] for i in block.instructions]
        for block in function.blocks
        for target in block.successors
        if target <= block.number
    ]
    if not loops:
        raise UserError(f"{function.name}: no loop in its machine code")
    return max(loops, key=lambda loop: (sum(i.name == "FFMA" for i in loop), -len(loop)))


class Cubin:
    """The bytes of a cubin, to be changed and written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())
        self.functions = sass.read_all(path)

    def _words(self, name: str) -> tuple[int, list[sass.Instruction], list[int]]:
        """Return where a function's hot loop begins in the file, its instructions, and their bits."""
        loop = hot_loop(self.functions[name])
        if [i.address for i in loop] != [loop[0].address + NBYTES * n for n in range(len(loop))]:
            raise UserError(f"{name}: its loop does not lie in one piece")
        start = sass.code_at(self.path, name) + loop[0].address
        code = self.data[start : start + NBYTES * len(loop)]
        pieces = (code[n : n + NBYTES] for n in range(0, len(code), NBYTES))
        return start, loop, [int.from_bytes(piece, "little") for piece in pieces]

    def _write(self, start: int, words: list[int]) -> None:
        self.data[start : start + NBYTES * len(words)] = b"".join(
            word.to_bytes(NBYTES, "little") for word in words
        )

    def set_ffmas(self, name: str, order: list[Ffma]) -> None:
        """Let the FFMAs of a loop be these, in order.

        Raises `UserError` where their number is another.
        """
        start, loop, words = self._words(name)
        places = [n for n, i in enumerate(loop) if i.name == "FFMA"]
        if len(places) != len(order):
            raise UserError(f"{name}: {len(places)} FFMAs in its loop, {len(order)} to be written")
        for n, ffma in zip(places, order, strict=True):
            word = words[n] & ~KEEPS
            for field, bit in FIELDS.items():
                word = word & ~(0xFF << bit) | getattr(ffma, field) << bit
            words[n] = word | sum(1 << REUSE_BITS[operand] for operand in ffma.kept)
        self._write(start, words)

    def place_loads(self, name: str, spread: bool) -> None:
        """Move a loop's shared loads: all before its first FFMA, or evenly among the first three
        quarters of them.

        As ptxas has it, the instruction before a load keeps no operand.
        """
        start, loop, words = self._words(name)
        loads = [word for word, i in zip(words, loop, strict=True) if i.name == "LDS"]
        rest = [(word, i) for word, i in zip(words, loop, strict=True) if i.name != "LDS"]
        ffmas = [n for n, (_, i) in enumerate(rest) if i.name == "FFMA"]
        step = LAST * len(ffmas) / len(loads) if spread else 0.0
        before: dict[int, list[int]] = {}
        for k, load in enumerate(loads):
            before.setdefault(ffmas[int(k * step)], []).append(load)
        placed: list[int] = []
        for n, (word, _) in enumerate(rest):
            if n in before:
                if placed:
                    placed[-1] &= ~KEEPS
                placed += before[n]
            placed.append(word)
        self._write(start, placed)
