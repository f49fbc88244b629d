"""wgmma: multiplications of a warpgroup, of operands in shared memory or, A, in registers (PTX ISA
9.7.15).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..errors import Kind, PtxError
from ..machine import floats, tensor_cores
from ..machine.memory import Access, Addresses
from ..machine.values import distinct, viewed
from ..machine.warpgroups import WARPGROUP
from ..ptx.syntax import Immediate, Instruction, Vector
from ..ptx.types import TYPES
from .matrix import elements, results, rows_of_words
from .needs import Machine
from .registry import NUMBER, RESULT_VECTOR, VALUE, VALUES, Modifiers, Step, anything, effect, takes

B32, B64, F32, PRED = TYPES["b32"], TYPES["b64"], TYPES["f32"], TYPES["pred"]
# A and D have 64 rows.
ROWS = 64
# A step takes 32 bytes of k.
STEP = 32
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
INTEGERS = ("s8", "u8")
# 16 bytes lie together in any layout.
PIECE = 16
# Bits 62 and 63 of a descriptor give the bytes of a row of the swizzle's pattern.
SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}
RESERVED = ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62) & (1 << 64) - 1


@dataclass(frozen=True)
class Descriptor:
    """Where a matrix lies in shared memory (PTX ISA 9.7.15.5.1.2.2); all in bytes but `base`."""

    start: int
    leading: int
    stride: int
    base: int
    # The swizzle's pattern has rows of `row` bytes, 16 without a swizzle.
    row: int

    @classmethod
    def unpack(cls, word: int) -> Descriptor:
        leading, stride = (word >> at & 0x3FFF for at in (16, 32))
        return cls(
            (word & 0x3FFF) << 4, leading << 4, stride << 4, word >> 49 & 7, SWIZZLES[word >> 62]
        )

    def overlapping(self, pieces: np.ndarray) -> str | None:
        """Return what is wrong with where its pieces lie, in words: different parts of the matrix
        at one place. Strides of 0 repeat a part on purpose.
        """
        if not self.stride or not self.leading or distinct(pieces).size == pieces.size:
            return None
        return (
            f"parts of the matrix lie at one place: with a {'swizzle of' if self.row > PIECE else 'row of'} {self.row} "
            f"bytes, its 8 rows take {8 * self.row}, but its stride is {self.stride} and its leading dimension "
            f"{self.leading} bytes"
        )

    def doubtful(self) -> str | None:
        """Return what is unlikely to be meant, in words: a base offset that is not that of the
        start.

        Without one, the swizzle follows the bits of the address, wherever the matrix begins: six
        kernels that begin at 0x480 compute the right results on an H100."""
        rows = self.row // PIECE - 1
        phase = self.start >> 7 & rows
        if self.base & rows in (0, phase):
            return None
        return (
            f"base offset {self.base} contradicts its start, shared address 0x{self.start:x}, which lies in row "
            f"{phase} of a pattern of the {self.row}-byte swizzle"
        )

    def pieces(self, lines: int, across: bool) -> np.ndarray:
        """Return the addresses of 16-byte pieces. K-major: [lines, 2], lines of the matrix and
        pieces along k. `across`, MN-major: [pieces along the lines, 16], and steps of k.
        """
        width = self.row // PIECE
        if across:
            piece, k = np.arange(lines * 2 // PIECE)[:, None], np.arange(16)[None, :]
            if width == 1:
                at = piece * self.stride + k % 8 * PIECE + k // 8 * self.leading
            else:
                at = (
                    piece % width * PIECE
                    + piece // width * self.leading
                    + k % 8 * self.row
                    + k // 8 * self.stride
                )
        else:
            line, piece = np.arange(lines)[:, None], np.arange(2)[None, :]
            at = (
                line % 8 * self.row
                + line // 8 * self.stride
                + piece * (self.leading if width == 1 else PIECE)
            )
        at = at + self.start
        return at ^ ((at >> 7) - self.base & width - 1) << 4


def matrix_of(words: np.ndarray, name: str, across: bool) -> np.ndarray:
    """Return the matrix [groups, lines, k] in float64 of pieces [groups, ., .] as 16 bytes each."""
    # The shape is [groups, ., . * elements of a piece].
    matrix = elements(np.ascontiguousarray(words).view(np.uint32), name)
    if not across:
        return matrix
    groups, pieces, _ = matrix.shape  # [groups, pieces along the lines, k, 8 lines]
    return matrix.reshape(groups, pieces, 16, -1).transpose(0, 1, 3, 2).reshape(groups, -1, 16)


@effect(
    "wgmma",
    takes(when="fence"),
    takes(when="commit_group"),
    takes(NUMBER, when="wait_group"),
    anything("sp"),
    takes(RESULT_VECTOR, VALUES, VALUE, VALUE, optional=(VALUE,) * 4),
)
def wgmma(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    """wgmma.fence, mma_async, commit_group, wait_group (PTX ISA 9.7.15.7, 9.7.15.5.2).

    Operands are read and sums made when the instruction is issued; what uses them too early is
    reported, see warpgroups.py. Of bits: not supported.
    """
    action = modifiers.one_of(
        ("fence", "commit_group", "wait_group", "mma_async")
    ) or modifiers.reject("this operation")
    modifiers.drop(("sync", "aligned"))
    if action == "mma_async":
        return _mma(m, instruction, modifiers)
    pending = int(instruction.operands[0].value) if action == "wait_group" else 0

    def step() -> None:
        m.warpgroups.lanes(instruction)
        if action == "fence":
            m.warpgroups.fence()
        elif action == "commit_group":
            m.warpgroups.commit()
        else:
            m.warpgroups.wait(pending)

    return step


@dataclass(frozen=True)
class Form:
    """Shape, types and immediate operands of a wgmma.mma_async."""

    n: int
    d_type: str
    a_type: str
    b_type: str
    # `in_registers` is true where A is in registers.
    in_registers: bool
    scale_a: int
    scale_b: int
    trans_a: bool
    trans_b: bool
    # Sums of integers may saturate.
    saturates: bool = False

    @property
    def operand_bytes(self) -> int:
        """Return the bytes of shared memory that hold its operands."""
        return STEP * (self.n + (0 if self.in_registers else ROWS))


def form_of(instruction: Instruction, modifiers: Modifiers) -> Form:
    """Parse a wgmma.mma_async.

    Raises `PtxError` for a form that does not exist or is not emulated.
    """
    modifiers.drop(("mma_async", "sync", "aligned"))
    saturates = modifiers.flag("satfinite")
    names = [name for name in instruction.modifiers if name in BITS or name in TYPES]
    modifiers.drop([name for name in names if name not in TYPES])
    shape = next((name for name in modifiers.left if name.startswith("m64n")), "")
    modifiers.flag(shape)
    fits = len(names) == 3 and names[0] in ("f16", "f32", "s32") and {*names[1:]} <= {*BITS}
    whole = fits and names[0] == "s32"
    fits = fits and all((name in INTEGERS) == whole for name in names[1:])
    fits = fits and (whole or not saturates)
    n, _, k = shape.removeprefix("m64n").partition("k")
    fits = fits and n.isdigit() and k.isdigit() and int(n) % 8 == 0 and 8 <= int(n) <= 256
    fits = fits and int(k) * BITS[names[1]] == 8 * STEP
    fits = fits and (names[1] == names[2] or BITS[names[1]] == BITS[names[2]] == 8)
    if not fits or (names[0] == "f16" and names[1] in ("bf16", "tf32")):
        modifiers.reject("this shape and types")
    d, a, _, _, *rest = instruction.operands
    in_registers, wide = isinstance(a, Vector), BITS[names[1]] == 16
    if whole:
        # Integers have neither signs to turn nor operands to transpose.
        rest = [*rest, Immediate(1), Immediate(1)]
    expected = 2 + (2 - in_registers) * wide
    values = [int(o.value) if isinstance(o, Immediate) else 2 for o in rest]
    if len(values) != expected or not ({*values[:2]} <= {1, -1} and {*values[2:]} <= {0, 1}):
        wanted = "1 or -1 twice" + f", then 0 or 1{'' if in_registers else ' twice'}" * wide
        raise PtxError(
            f"{instruction.where}: {instruction.name}: its last operands must be {wanted}"
        )
    registers = int(n) // (4 if names[0] == "f16" else 2)
    if len(d.items) != registers or (in_registers and len(a.items) != 4):
        raise instruction.error(f"takes {registers} registers for D and 4 for A")
    scale_a, scale_b, *transposed = values
    trans_a, trans_b = [False] * (2 - len(transposed)) + [bool(v) for v in transposed]
    scales = (scale_a, scale_b, trans_a, trans_b)
    return Form(int(n), names[0], names[1], names[2], in_registers, *scales, saturates)


def _mma(m: Machine, instruction: Instruction, modifiers: Modifiers) -> Step:
    form = form_of(instruction, modifiers)
    d, a, _, scale, *_ = instruction.operands
    n, half = form.n, form.d_type == "f16"
    d_rows, a_rows = m.watch.rows_of([d]), m.watch.rows_of([a] if form.in_registers else [])
    whole = form.d_type == "s32"
    sums = Sums(m, [m.operands.target(x, B32 if half or whole else F32)[0] for x in d.items])
    read_a = [m.operands.reader(x, B32) for x in a.items] if form.in_registers else []
    read_scale = m.operands.reader(scale, PRED)
    fetch_b, fetch_a = fetches(m, instruction, form)

    def step() -> None:
        lanes = m.warpgroups.lanes(instruction)
        checked = m.launch.checks.races
        note = m.warpgroups.issue(instruction, lanes, d_rows, a_rows) if checked else None
        if fetch_a is None:
            words = [np.ascontiguousarray(read()[lanes]) for read in read_a]
            left = elements(rows_of_words(words, 16), form.a_type).reshape(len(lanes), ROWS, -1)
        else:
            left = fetch_a(lanes, note)
        right = fetch_b(lanes, note)
        m.events.operands(instruction, lanes, form.operand_bytes)
        c = _accumulators(sums.read(lanes), form.d_type, n)
        scaled = read_scale()[lanes]
        if not scaled.all():
            c = np.where(scaled[:, :1, None], c, 0.0)
        if whole:
            # Sums of 32 products of 16 bits each, and a number of 32 bits, are exact in float64.
            left, right = left.astype(np.float64), right.astype(np.float64)
            total = np.matmul(left, right.transpose(0, 2, 1)) + c
        else:
            left, right = left * form.scale_a, right * form.scale_b
            total = tensor_cores.wgmma(left, right, c, (form.a_type, form.b_type), form.d_type)
        sums.write(lanes, _registers(total, form, n))

    return step


class Sums:
    """The registers of D. Those that one wgmma wrote are rows of one array, and the next finds them
    together.
    """

    def __init__(self, m: Machine, slots: list[int]) -> None:
        self.m, self.slots = m, slots
        self.key = tuple(slots)

    def _words(self) -> np.ndarray:
        """Return the bits of all lanes [registers, lanes]."""
        registers = self.m.state.registers
        words, rows = self.m.warpgroups.sums.get(self.key, (None, ()))
        if words is not None and all(
            registers[s] is row for s, row in zip(self.slots, rows, strict=True)
        ):
            return words
        return np.stack([viewed(registers[s], floats.U4) for s in self.slots])

    def _parts(self, words: np.ndarray, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Group words and lanes by warpgroup, which copies faster, where blocks have whole
        warpgroups.
        """
        if self.m.state.padded % WARPGROUP:
            return words, lanes
        return words.reshape(len(words), -1, WARPGROUP), lanes[:, 0] // WARPGROUP

    def read(self, lanes: np.ndarray) -> np.ndarray:
        """Return the bits of these lanes [registers, warpgroups, 128]."""
        words, here = self._parts(self._words(), lanes)
        return words[:, here]

    def write(self, lanes: np.ndarray, bits: np.ndarray) -> None:
        """Write the results of these lanes."""
        # Somebody may still hold the old words.
        words = self._words().copy()
        parts, here = self._parts(words, lanes)
        parts[:, here] = bits
        rows = list(words)
        self.m.warpgroups.sums[self.key] = words, rows
        for slot, row in zip(self.slots, rows, strict=True):
            self.m.state.registers[slot] = row


def _accumulators(words: np.ndarray, d_type: str, n: int) -> np.ndarray:
    """D [groups, 64, n] in float64, of the bits of registers [., groups, 128]: a thread of warp w
    holds rows 16 w + lane / 4 and 8 further, of each 8 columns 2 (lane % 4) and the next."""
    groups = words.shape[1]
    if d_type == "f16":
        low, high = floats.halves(words)
        words = np.stack([floats.unpack(low, "f16"), floats.unpack(high, "f16")], axis=1)
    else:
        words = words.view(np.int32 if d_type == "s32" else np.float32)
    parts = words.astype(np.float64).reshape(n // 8, 2, 2, groups, 4, 8, 4)
    return parts.transpose(3, 4, 1, 5, 0, 6, 2).reshape(groups, ROWS, n)


def _registers(total: np.ndarray, form: Form, n: int) -> np.ndarray:
    """Return the opposite: bits of registers [., groups, 128]."""
    groups = len(total)
    parts = total.reshape(groups, 4, 2, 8, n // 8, 4, 2).transpose(4, 2, 6, 0, 1, 3, 5)
    sums = parts.reshape(-1, groups, WARPGROUP)
    return viewed(results(sums, form.d_type, form.saturates), floats.U4)


@dataclass
class Fetch:
    """Reads a matrix of `lines` by the descriptor that `read` gives."""

    m: Machine
    instruction: Instruction
    read: Callable[[], np.ndarray]
    lines: int
    # `name` is that of the elements' type.
    name: str
    across: bool
    # Each descriptor has its pieces; `row` is that of the last one's swizzle.
    pieces: dict[int, np.ndarray] = field(default_factory=dict)
    row: int = PIECE
    base: int = 0

    def _pieces(self, word: int, lane: int) -> np.ndarray:
        pieces = self.pieces.get(word)
        if pieces is None:
            descriptor = Descriptor.unpack(word)
            pieces = descriptor.pieces(self.lines, self.across)
            name = f"wgmma: matrix descriptor 0x{word:016x}"
            reserved = f"bits 0x{word & RESERVED:x} must be zero" if word & RESERVED else None
            if what := reserved or descriptor.overlapping(pieces):
                raise self.m.diag.fault(Kind.WGMMA, self.instruction, f"{name}: {what}", lane)
            if what := descriptor.doubtful():
                self.m.diag.note(f"{self.instruction.where}: {name}: {what}")
            self.pieces[word] = pieces
        return pieces

    def addresses(self, lanes: np.ndarray) -> tuple[Access, np.ndarray]:
        """Check and return the pieces of all warpgroups, one after the other, as if each
        warpgroup's first thread read them; and that thread of each.
        """
        m, words = self.m, self.read()[lanes]
        differ = words != words[:, :1]
        if differ.any():
            lane = int(lanes[differ][0])
            message = "wgmma: the threads of the warpgroup have different matrix descriptors"
            raise m.diag.fault(Kind.WGMMA, self.instruction, message, lane)
        last = Descriptor.unpack(int(words[0, 0]))
        self.row, self.base = last.row, 0 if last.doubtful() else last.base
        pieces = map(self._pieces, words[:, 0].tolist(), lanes[:, 0].tolist())
        raw = np.stack(list(pieces))
        space = m.memory.spaces["shared"]
        firsts = np.repeat(lanes[:, 0], raw[0].size)
        flat = raw.reshape(-1)
        outside = (flat < space.first) | (flat + PIECE > space.size)
        if outside.any():
            at = int(flat[outside][0])
            what = f"out-of-bounds wgmma read of 16 bytes at {space.address_text(at)}: {space.describe(at)}"
            raise m.diag.fault(Kind.BOUNDS, self.instruction, what, int(firsts[outside][0]))
        where = Addresses(None, None, flat, firsts, np.asarray(space.origin)[firsts])
        return Access(space, where, 0), firsts

    def __call__(self, lanes: np.ndarray, note: Callable[[int], None] | None) -> np.ndarray:
        m = self.m
        access, firsts = self.addresses(lanes)
        time = m.events.shared.async_read(access, firsts, PIECE, self.instruction)
        m.events.shared.boxes.read_by_pattern(access, self.row, self.instruction, self.base)
        if note is not None:
            note(time)
        words = np.stack([access.load(8), access.load(8, 1)], axis=1)
        rows = (self.lines * 2 // PIECE, 32) if self.across else (self.lines, 4)
        return matrix_of(words.reshape(len(lanes), *rows), self.name, self.across)


def fetches(m: Machine, instruction: Instruction, form: Form) -> tuple[Fetch, Fetch | None]:
    """Return what reads B, and A where it is in shared memory."""
    a, b = instruction.operands[1:3]
    fetch_b = Fetch(m, instruction, m.operands.reader(b, B64), form.n, form.b_type, form.trans_b)
    if form.in_registers:
        return fetch_b, None
    read_a = m.operands.reader(a, B64)
    return fetch_b, Fetch(m, instruction, read_a, ROWS, form.a_type, form.trans_a)


def blind(m: Machine, instruction: Instruction) -> Step:
    """Return the step of a wgmma.mma_async without values, which only resolves and counts its
    operands.
    """
    form = form_of(instruction, Modifiers(instruction))
    both = fetches(m, instruction, form)

    def step() -> None:
        lanes = m.warpgroups.lanes(instruction)
        for fetch in filter(None, both):
            fetch.addresses(lanes)
        m.events.operands(instruction, lanes, form.operand_bytes)

    return step
