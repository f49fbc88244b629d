"""Loops of FFMA whose registers we choose: each asks one question of the register file.

Names say which banks a, b and c are read from, in this order: e (even registers) or o (odd ones);
`.` is an operand that is kept with .reuse, read once and for all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from experiments.studies.ffma_machine_code import Ffma

COUNT = 128
DISTANCE = 16  # FFMAs between two that write one register: longer than they take
EVEN, ODD = 0, 1  # banks


class Registers:
    """Numbers of the registers that a loop may write (at least 64), and of those that it only reads
    (16).
    """

    def __init__(self, written: set[int], read: set[int]) -> None:
        self.written = [sorted(r for r in written if r % 2 == bank) for bank in (EVEN, ODD)]
        self.read = [sorted(r for r in read if r % 2 == bank) for bank in (EVEN, ODD)]

    def c(self, bank: int, k: int) -> int:
        return self.written[bank][k % DISTANCE]

    def a(self, bank: int, k: int) -> int:
        """One of four, never one of `b`."""
        return self.read[bank][k % 4]

    def b(self, bank: int, k: int) -> int:
        return self.read[bank][4 + k % 4]


Order = Callable[[Registers], list[Ffma]]


def _sum(r: Registers, k: int, a: int, b: int, bank: int, kept: str = "") -> Ffma:
    """The k-th FFMA, whose c is the register that it writes."""
    return Ffma(r.c(bank, k), a, b, r.c(bank, k), kept)


def _new(banks: tuple[int, int, int]) -> Order:
    """Every operand is another register than in the FFMA before."""
    a, b, c = banks
    return lambda r: [_sum(r, k, r.a(a, k), r.b(b, k), c) for k in range(COUNT)]


def _a_stays(b: int, c: int, kept: str) -> Order:
    return lambda r: [_sum(r, k, r.a(EVEN, 0), r.b(b, k), c, kept) for k in range(COUNT)]


def _a_in_turn(registers: int, every: int = 1) -> Order:
    """a is one of some registers in turn, with .reuse; b and c lie in different banks."""
    return lambda r: [
        _sum(r, k, r.a(EVEN, k // every % registers), r.b(EVEN, k), ODD, "a") for k in range(COUNT)
    ]


def _every_second_kept(r: Registers) -> list[Ffma]:
    """a is one of two in turn, of which only one is kept."""
    return [
        _sum(r, k, r.a(EVEN, k % 2), r.b(EVEN, k), ODD, "" if k % 2 else "a") for k in range(COUNT)
    ]


def _fours(r: Registers) -> list[Ffma]:
    """Every operand is new, in a register whose number is a multiple of 4."""
    read = [register for register in r.read[EVEN] if register % 4 == 0]
    c = [register for register in r.written[EVEN] if register % 4 == 0]
    half = len(read) // 2
    sums = [(read[k % half], read[half + k % half], c[k % len(c)]) for k in range(COUNT)]
    return [Ffma(c, a, b, c) for a, b, c in sums]


def _runs(length: int) -> Order:
    """a is kept; b and c are both even for some FFMAs, then both odd for as many."""

    def order(r: Registers) -> list[Ffma]:
        banks = [k // length % 2 for k in range(COUNT)]
        return [_sum(r, k, r.a(EVEN, 0), r.b(bank, k), bank, "a") for k, bank in enumerate(banks)]

    return order


def _after(heavy: tuple[int, int, int], light: int) -> Order:
    """One FFMA of three new operands, then `light` ones that read only an odd c."""

    def order(r: Registers) -> list[Ffma]:
        a, b, c = heavy
        sums = []
        for k in range(COUNT):
            number = 1 + k // (light + 1) % 3
            new = _sum(r, k, r.a(a, number), r.b(b, number), c)
            kept = _sum(r, k, r.a(EVEN, 0), r.b(EVEN, 0), ODD, "ab")
            sums.append(kept if k % (light + 1) else new)
        return sums

    return order


def _pair_after(light: int) -> Order:
    """One FFMA that reads an even b and c beside a kept a, then `light` ones that read only an odd
    c.
    """

    def order(r: Registers) -> list[Ffma]:
        group = light + 1
        return [
            _sum(r, k, r.a(EVEN, 0), r.b(EVEN, 0), ODD, "ab")
            if k % group
            else _sum(r, k, r.a(EVEN, 0), r.b(EVEN, 1 + k // group % 3), EVEN, "a")
            for k in range(COUNT)
        ]

    return order


def _writes(bank: int | None, c: int) -> Order:
    """a and b kept, c of one bank; d is another register, of one bank or of both in turn."""

    def order(r: Registers) -> list[Ffma]:
        banks = [k % 2 if bank is None else bank for k in range(COUNT)]
        a, b, read = r.a(EVEN, 0), r.b(EVEN, 0), r.written[c][DISTANCE:]
        return [Ffma(r.c(bank, k), a, b, read[k % DISTANCE], "ab") for k, bank in enumerate(banks)]

    return order


def _both_kept(bank: int) -> Order:
    return lambda r: [_sum(r, k, r.a(EVEN, 0), r.b(EVEN, 0), bank, "ab") for k in range(COUNT)]


def _kept_every(every: int) -> Order:
    """a stays, but only one FFMA in so many says .reuse."""
    return lambda r: [
        _sum(r, k, r.a(EVEN, 0), r.b(EVEN, k), ODD, "" if k % every else "a") for k in range(COUNT)
    ]


def _other_slot(r: Registers) -> list[Ffma]:
    """What one keeps as b, the next one reads as a."""
    return [_sum(r, k, r.b(EVEN, k - 1), r.b(EVEN, k), ODD, "b") for k in range(COUNT)]


def _c_kept(r: Registers) -> list[Ffma]:
    """c stays, with .reuse; a is even, b odd, and what is written in turn."""
    c = r.written[EVEN][DISTANCE]
    return [Ffma(r.c(k % 2, k), r.a(EVEN, k), r.b(ODD, k), c, "c") for k in range(COUNT)]


def _twice(bank: int) -> Order:
    """a and b are one register."""
    return lambda r: [_sum(r, k, r.a(EVEN, k), r.a(EVEN, k), bank) for k in range(COUNT)]


def orders() -> dict[str, Order]:
    """Return all of them by name."""
    letters = {EVEN: "e", ODD: "o"}
    named: dict[str, Order] = {}
    for a, b, c in product(letters, repeat=3):
        named[f"new_{letters[a]}{letters[b]}{letters[c]}"] = _new((a, b, c))
    named["new_eee_multiples_of_4"] = _fours
    for b, c in product(letters, repeat=2):
        named[f"a_kept_.{letters[b]}{letters[c]}"] = _a_stays(b, c, "a")
    named["a_stays_without_reuse_eeo"] = _a_stays(EVEN, ODD, "")
    named["a_stays_without_reuse_eoe"] = _a_stays(ODD, EVEN, "")
    named |= {f"a_and_b_kept_..{letters[bank]}": _both_kept(bank) for bank in letters}
    named |= {f"a_in_turn_of_{registers}": _a_in_turn(registers) for registers in (2, 3, 4)}
    named["a_in_turn_of_2_one_kept"] = _every_second_kept
    named |= {f"a_kept_for_{every}": _a_in_turn(4, every) for every in (2, 4, 8)}
    named |= {f"reuse_said_every_{every}": _kept_every(every) for every in (2, 4)}
    named |= {"kept_in_another_slot": _other_slot, "c_kept": _c_kept}
    named |= {"one_register_twice_eeo": _twice(ODD), "one_register_twice_eee": _twice(EVEN)}
    named |= {f"runs_of_{length}": _runs(length) for length in (1, 2, 3, 4, 8, 16)}
    named |= {f"eee_then_{light}": _after((EVEN, EVEN, EVEN), light) for light in (1, 2, 3, 4, 6)}
    named |= {f"eeo_then_{light}": _after((EVEN, EVEN, ODD), light) for light in (1, 3)}
    named |= {f".ee_then_{light}": _pair_after(light) for light in (1, 2)}
    named |= {f"writes_even_reads_..{letters[c]}": _writes(EVEN, c) for c in letters}
    named["writes_in_turn_reads_..e"] = _writes(None, EVEN)
    return named
