"""How the memory system serves the 32 addresses of a warp: wavefronts of shared memory, sectors of
global memory.

Shared memory has 32 banks of 4 bytes; in one wavefront each bank gives one word, to as many lanes
as want it.
- Up to 32 bits a lane: the warp is served together. The wavefronts are the most distinct words that
  one bank must give.
- 64 bits: by half-warps; 128 bits: by quarter-warps. Of a load, the two halves (the two quarters of
  each half) are served together if in every pair of lanes (i, i^1), or in every pair (i, i^2), the
  addresses are equal; of a store never.
- ldmatrix: each of its 8x8 matrices by itself, eight rows of 16 bytes.
- cp.async: its writes arrive by lines of 128 bytes of global memory: each line by itself. These are
exact on what Nsight Compute counted for a thousand patterns on an H200 (docs/hardware.md; a test
holds them together). The ideal is one wavefront for each part that is served by itself.

The functions that count take byte addresses [warps, 32] and the mask of active lanes, and give a
number for each warp; `serve` takes one warp, and says which word of which lane goes with which
wavefront.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BANKS, WORD = 32, 4
SECTOR, LINE = 32, 128


def most_words_per_bank(words: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return for each row the largest number of distinct words in one bank."""
    rows = len(words)
    marked = np.where(valid, words, -1)
    marked = np.sort(marked, axis=1)
    first = np.empty(marked.shape, bool)
    first[:, 0] = marked[:, 0] >= 0
    first[:, 1:] = (marked[:, 1:] != marked[:, :-1]) & (marked[:, 1:] >= 0)
    row, column = np.nonzero(first)
    bank = marked[row, column] % BANKS
    return np.bincount(row * BANKS + bank, minlength=rows * BANKS).reshape(rows, BANKS).max(axis=1)


def _groups(addresses: np.ndarray, active: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return wavefronts and ideal of groups of lanes, given as rows, each lane wanting `width`
    bytes."""
    words = addresses[:, :, None] // WORD + np.arange(max(1, width // WORD))
    valid = np.broadcast_to(active[:, :, None], words.shape)
    waves = most_words_per_bank(words.reshape(len(words), -1), valid.reshape(len(words), -1))
    ideal: np.ndarray = np.any(active, axis=1).astype(np.int64)
    return waves, ideal


def _paired(addresses: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Return for each row whether all pairs (i, i^1), or all pairs (i, i^2), hold equal
    addresses.
    """
    lane = np.arange(addresses.shape[1])
    holds = np.zeros(len(addresses), bool)
    for other in (lane ^ 1, lane ^ 2):
        equal = (addresses == addresses[:, other]) | ~active | ~active[:, other]
        holds |= equal.all(axis=1)
    return holds


def shared(
    addresses: np.ndarray, active: np.ndarray, width: int, store: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return wavefronts and ideal wavefronts of a load or store of `width` bytes a lane."""
    if width <= WORD:
        return _groups(addresses, active, width)
    warps = len(addresses)
    # Each part of a warp may be served at once or in two.
    parts = 1 if width == 8 else 2
    lanes = 32 // parts
    a, on = addresses.reshape(-1, lanes), active.reshape(-1, lanes)
    together, ideal_together = _groups(a, on, width)
    halves, ones = _groups(a.reshape(-1, lanes // 2), on.reshape(-1, lanes // 2), width)
    paired = _paired(a, on) & (not store)
    waves = np.where(paired, together, halves.reshape(-1, 2).sum(axis=1))
    ideal = np.where(paired, ideal_together, ones.reshape(-1, 2).sum(axis=1))
    return waves.reshape(warps, parts).sum(axis=1), ideal.reshape(warps, parts).sum(axis=1)


def ldmatrix(addresses: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return wavefronts and ideal of an ldmatrix: lanes 8i to 8i+7 give the rows of matrix i."""
    waves, ideal = _groups(addresses.reshape(-1, 8), active.reshape(-1, 8), 16)
    return waves.reshape(-1, 4).sum(axis=1), ideal.reshape(-1, 4).sum(axis=1)


def cp_async(
    addresses: np.ndarray, active: np.ndarray, width: int, source: np.ndarray, reading: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return wavefronts and ideal of the writes of a cp.async; `source`: its global addresses, of
    the lanes that read.
    """
    line = np.where(active & reading, source // LINE, -1)
    waves = np.zeros(len(addresses), np.int64)
    left = active.copy()
    while left.any():
        lead = line[np.arange(len(line)), left.argmax(axis=1)]
        now = left & (line == lead[:, None])
        waves += _groups(addresses, now, width)[0]
        left &= ~now
    bytes_wanted = distinct(addresses, active) * width
    return waves, -(-bytes_wanted // (BANKS * WORD))


def count(
    kind: str, addresses: np.ndarray, active: np.ndarray, width: int, *source: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return wavefronts and ideal of an access: ld, st, atom, ldmatrix or cp_async, which has its
    `source`: the global addresses, and which lanes read.
    """
    if kind == "ldmatrix":
        return ldmatrix(addresses, active)
    if kind == "cp_async":
        return cp_async(addresses, active, width, *source)
    return shared(addresses, active, width, store=kind == "st")


def distinct(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Return the number of different values in each row [warps, 32]."""
    return _distinct(_ordered(values, active))


def _ordered(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Return rows in order, -1 where a lane is not active."""
    marked = values if active.all() else np.where(active, values, -1)
    return np.sort(marked, axis=1) if (marked[:, 1:] < marked[:, :-1]).any() else marked


def _distinct(ordered: np.ndarray) -> np.ndarray:
    """Return the number of different values from 0 on in each row [warps, 32]."""
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return np.bitwise_count(np.packbits(new, axis=1).view(np.uint32)[:, 0]).astype(np.int64)


def local_sectors(addresses: np.ndarray, active: np.ndarray, width: int) -> np.ndarray:
    """Return sectors of local memory that each warp touches [warps]; `addresses` [warps, 32] within
    each thread's own.

    Words of the same address lie next to each other for the 32 threads of a warp (CUDA's
    programming guide), so that a sector has one word of eight threads.
    """
    lane = np.arange(addresses.shape[1]) // (SECTOR // WORD)
    words = range(0, max(width, WORD), WORD)
    touched = np.stack([(addresses + word) // WORD * 4 + lane for word in words], axis=-1)
    return distinct_of_rows(touched, active[..., None])


def distinct_of_rows(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return how many different values from 0 on each row has among the valid ones, [rows, ...]."""
    ordered = np.sort(np.where(valid, values, -1).reshape(len(values), -1), axis=1)
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return np.asarray(first.sum(axis=1))


def sectors(addresses: np.ndarray, active: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sectors of 32 bytes that each request touches, and the distinct bytes it wants."""
    ordered = _ordered(addresses, active)
    return _distinct(ordered >> SECTOR.bit_length() - 1), _distinct(ordered) * width


# one warp in detail


@dataclass(frozen=True)
class Word:
    """One word that a bank gives or takes in a wavefront: its byte address, and the lanes that it
    serves.
    """

    address: int
    lanes: tuple[int, ...]

    @property
    def bank(self) -> int:
        return self.address // WORD % BANKS


@dataclass(frozen=True)
class Part:
    """Lanes that are served by themselves, and the wavefronts that takes, each with at most one
    word a bank.
    """

    lanes: tuple[int, ...]
    wavefronts: tuple[tuple[Word, ...], ...]


def serve(
    addresses: np.ndarray,
    active: np.ndarray,
    width: int,
    kind: str = "ld",
    source: np.ndarray | None = None,
    reading: np.ndarray | None = None,
) -> list[Part]:
    """Return how one access of one warp is served: `addresses` [32] in bytes, `active` [32],
    `width` in bytes a lane.

    `kind` is ld, st, atom, ldmatrix or cp_async; of a cp_async, `source` [32] are the global
    addresses of the lanes that are `reading`. The wavefronts are as many as `shared`, `ldmatrix`
    and `cp_async` count. Which word of a bank goes first cannot be measured; here it is that of the
    lowest lane.
    """
    addresses, active = np.asarray(addresses, np.int64), np.asarray(active, bool)
    if kind == "ldmatrix":
        width = 16
    groups = _served_together(addresses, active, width, kind, source, reading)
    return [_part(lanes, addresses, width) for lanes in groups if lanes]


def _served_together(
    addresses: np.ndarray,
    active: np.ndarray,
    width: int,
    kind: str,
    source: np.ndarray | None,
    reading: np.ndarray | None,
) -> list[list[int]]:
    """Return the active lanes, in groups that are served one after the other."""
    lanes = np.flatnonzero(active).tolist()
    if kind == "cp_async":
        where = addresses if source is None else np.asarray(source, np.int64)
        read = active & (np.asarray(reading, bool) if reading is not None else False)
        lines: dict[int, list[int]] = {}
        for lane in lanes:
            lines.setdefault(int(where[lane]) // LINE if read[lane] else -1, []).append(lane)
        return list(lines.values())
    size = 8 if kind == "ldmatrix" else 32 if width <= WORD else 32 * WORD // width
    groups = [[lane for lane in lanes if lane // size == i] for i in range(32 // size)]
    if kind in ("st", "ldmatrix") or width <= WORD:
        return groups
    # The two parts of a half-warp (of the warp, at 64 bits) may go together.
    both = 2 * size
    paired = _paired(addresses.reshape(-1, both), active.reshape(-1, both))
    pairs = zip(groups[::2], groups[1::2], paired, strict=True)
    return [group for a, b, together in pairs for group in ([a + b] if together else [a, b])]


def _part(lanes: list[int], addresses: np.ndarray, width: int) -> Part:
    # `wanted` holds the lanes that want each word.
    wanted: dict[int, list[int]] = {}
    for lane in lanes:
        first = int(addresses[lane]) // WORD
        for word in range(first, first + max(1, width // WORD)):
            wanted.setdefault(word, []).append(lane)
    wavefronts: list[list[Word]] = []
    turns = [0] * BANKS
    for word, takers in wanted.items():
        turn = turns[word % BANKS]
        turns[word % BANKS] += 1
        if turn == len(wavefronts):
            wavefronts.append([])
        wavefronts[turn].append(Word(word * WORD, tuple(takers)))
    return Part(tuple(lanes), tuple(tuple(sorted(row, key=lambda w: w.bank)) for row in wavefronts))
