"""Tensor maps, bulk copies, clusters: what nvcc compiled against exact references, and faults that
are found.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from running import HEADER, KERNELS, fails

import ptxsim
from ptxsim import Array, TensorMap
from ptxsim.arguments import parse_argument
from ptxsim.cli import main


@pytest.fixture
def kernel(compiled):
    """A function: name to a kernel of tma.cu."""
    return lambda entry: compiled("tma.cu", entry)


def laid_out(box: np.ndarray, swizzle: int, at: int = 0, fill: int = 0xEE) -> np.ndarray:
    """The bytes of shared memory from `at` on that a box takes, by the rule of the programming
    guide's table.
    """
    rows = np.ascontiguousarray(box).reshape(-1, box.shape[-1]).view(np.uint8)
    pitch = max(rows.shape[1], swizzle)
    out = np.full(len(rows) * pitch, fill, np.uint8)
    for r, row in enumerate(rows):
        for piece in range(len(row) // 16):
            place = at + r * pitch + piece * 16
            line, chunk = place // 128, place // 16 % 8
            chunk ^= {0: 0, 32: line // 1 % 2, 64: line % 4, 128: line % 8}[swizzle]
            out[line * 128 + chunk * 16 - at :][:16] = row[piece * 16 :][:16]
    return out


def window(tensor: np.ndarray, at, box) -> np.ndarray:
    """A box of a tensor, with zeros outside it; `at` and `box` with the innermost last."""
    out = np.zeros(box, tensor.dtype)
    for place in np.ndindex(*box):
        index = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True)):
            out[place] = tensor[index]
    return out


def fetched(kernel, tensor_map: TensorMap, at, entry: str | None = None, place: int = 0):
    """The shared memory of a box with its first element at `at`."""
    out = Array(np.zeros(tensor_map.span, np.uint8), "out")
    x, y, z = (*reversed(at), 0, 0)[:3]
    span = tensor_map.span
    args = [out, tensor_map, x, y, z, span, tensor_map.bytes, place]
    kernel(entry or f"box_{tensor_map.rank}d").launch(1, 64, args, shared_bytes=place + span)
    return out.numpy()


CASES = [  # shape, box, swizzle, places
    ((100,), (32,), "none", [(0,), (-5,), (90,), (200,)]),
    ((40, 72), (8, 64), "none", [(0, 0), (36, 40), (-3, -7)]),
    ((40, 72), (16, 16), 32, [(0, 0), (30, 60), (-9, 3)]),
    ((40, 72), (16, 32), 64, [(0, 0), (30, 60), (-9, 3)]),
    ((40, 72), (16, 64), 128, [(0, 0), (30, 60), (-9, 3), (5, 13)]),
    ((40, 72), (16, 32), 128, [(3, 8)]),
    ((5, 24, 32), (2, 8, 16), 32, [(0, 0, 0), (4, 20, 24), (-1, -1, -1)]),
    ((5, 24, 64), (3, 4, 64), 128, [(1, 2, 0), (4, 22, 24)]),
]


@pytest.mark.parametrize(("shape", "box", "swizzle", "places"), CASES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_boxes_of_16_bits(kernel, shape, box, swizzle, places, dtype):
    tensor = np.random.default_rng(1).uniform(-1, 1, shape).astype(dtype)
    taken = TensorMap(Array(tensor, "A"), box, swizzle=swizzle)
    for at in places:
        want = laid_out(window(tensor, at, box), taken.swizzle)
        assert (fetched(kernel, taken, at) == want).all(), at


@pytest.mark.parametrize(("dtype", "inner"), [(np.uint8, 128), (np.float32, 32), (np.float64, 16)])
def test_boxes_of_other_types_with_padded_rows(kernel, dtype, inner):
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 255, (20, 512 // np.dtype(dtype).itemsize)).astype(dtype)
    pitch = whole.strides[0]
    columns = 300 // np.dtype(dtype).itemsize
    taken = TensorMap(
        Array(whole, "A"), (8, inner), shape=(20, columns), strides=(pitch,), swizzle=128
    )
    for at in [(0, 0), (15, columns - 3), (-2, 7)]:
        want = window(whole[:, :columns], at, (8, inner))
        assert (fetched(kernel, taken, at) == laid_out(want, 128)).all()


def test_a_swizzle_follows_the_bits_of_the_address(kernel):
    tensor = np.random.default_rng(3).integers(0, 2**16, (8, 64)).astype(np.uint16)
    taken = TensorMap(Array(tensor, "A"), (8, 64), swizzle=128)
    found = fetched(kernel, taken, (0, 0), place=256)
    at = 256 + 1024  # the system's part of shared memory lies before
    assert (found == laid_out(tensor, 128, at)).all()
    assert (found != laid_out(tensor, 128)).any()


def test_a_map_in_global_memory(kernel):
    tensor = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    taken = TensorMap(Array(tensor, "A"), (16, 64), swizzle=128)
    found = fetched(kernel, taken, (7, 0), entry="box_by_pointer")
    assert (found == laid_out(tensor[7:23], 128)).all()


def put(kernel, tile, target, at=(0, 0), rank=2, fault=0):
    """Stores a tile (rank 1: adds it) at a place, from shared memory that is laid out as the map
    says.
    """
    source = Array(laid_out(tile, target.swizzle), "in")
    x, y, z = (*reversed(at), 0)[:3]
    args = [source, target, x, y, z, target.span, rank, fault]
    return kernel("put").launch(1, 128, args, shared_bytes=target.span)


@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((40, 72), (16, 64), (30, 24)),
        ((40, 72), (16, 64), (-5, -9)),
        ((3, 20, 64), (2, 8, 64), (2, 15, 8)),
    ],
)
@pytest.mark.parametrize("swizzle", ["none", 128])
def test_boxes_are_stored_and_clipped(kernel, shape, box, at, swizzle):
    rng = np.random.default_rng(4)
    tensor, tile = (rng.integers(0, 2**16, size).astype(np.uint16) for size in (shape, box))
    c = Array(tensor, "C")
    put(kernel, tile, TensorMap(c, box, swizzle=swizzle), at, len(shape))
    want = tensor.copy()
    for place in np.ndindex(*box):
        index = tuple(a + p for a, p in zip(at, place, strict=True))
        if all(0 <= i < n for i, n in zip(index, shape, strict=True)):
            want[index] = tile[place]
    assert (c.numpy() == want).all() and (want != tensor).any()


@pytest.mark.parametrize("columns", [67, 71, 65, 72])
def test_a_stored_box_ends_with_a_whole_piece(kernel, columns):
    """Seen on an H200: zeros beyond the last column, up to a multiple of 16 bytes, here 72
    columns.
    """
    tensor = np.full((8, 80), 7, np.uint16)
    tile = np.arange(1, 8 * 64 + 1, dtype=np.uint16).reshape(8, 64)
    c = Array(tensor, "C")
    put(kernel, tile, TensorMap(c, (8, 64), shape=(8, columns), strides=(160,)), (0, 16))
    want = tensor.copy()
    want[:, 16:columns] = tile[:, : columns - 16]
    want[:, columns:72] = 0
    assert (c.numpy() == want).all()


@pytest.mark.parametrize("swizzle", ["none", 128])
@pytest.mark.parametrize(
    ("missing", "message"), [(0, None), (2, "read of shared memory that nobody wrote")]
)
def test_a_store_reads_only_what_lies_inside_its_tensor(kernel, swizzle, missing, message):
    """A box of 64 columns and 16 rows over a tensor of 20 columns and 9 rows: nobody wrote the rest
    of it.
    """
    tile = np.arange(16 * 64, dtype=np.uint16).reshape(16, 64)
    c = Array(np.zeros((9, 24), np.uint16), "C")
    target = TensorMap(c, (16, 64), shape=(9, 20), strides=(48,), swizzle=swizzle)
    places = np.flatnonzero(laid_out(np.pad(np.ones((9, 20 - missing), np.uint16), ((0, 7), (0, 44 + missing))),
                                     target.swizzle, fill=0).view(np.uint16))  # fmt: skip
    values = laid_out(tile, target.swizzle).view(np.uint16)[places]

    def launch():
        args = [Array(places.astype(np.int32)), Array(values), len(places), target]
        kernel("put_part").launch(1, 128, args, shared_bytes=target.span)

    if message is None:
        launch()
        assert (c.numpy()[:, :20] == tile[:9, :20]).all()
    else:
        with fails(message):
            launch()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_boxes_are_added(kernel, dtype):
    rng = np.random.default_rng(5)
    tensor, tile = (rng.integers(-64, 64, size).astype(dtype) for size in ((40, 48), (16, 16)))
    c = Array(tensor, "C")
    put(kernel, tile, TensorMap(c, (16, 16)), (30, 40), rank=1)
    want = tensor.copy()
    want[30:40, 40:48] += tile[:10, :8]
    assert (c.numpy() == want).all()


# whole kernels: each checks its own result, and has faults that can be planted


def ring(kernel, fault=0, tiles=8):
    values = np.random.default_rng(6).integers(-8, 9, (64 * tiles, 32)).astype(np.float32)
    out = Array(np.zeros(256, np.float32), "out")
    kernel("ring").launch(
        1, 384, [out, TensorMap(Array(values, "A"), (64, 32)), tiles, fault], 3 * 64 * 128
    )
    sums = values.reshape(tiles, 16, 128).sum(axis=1)
    want = [sum(sums[i] * (i + group) for i in range(tiles)) for group in (1, 2)]
    assert (out.numpy() == np.concatenate(want)).all()


def multicast(kernel, fault=0, tiles=5):
    values = np.random.default_rng(7).integers(-8, 9, (64 * tiles, 32)).astype(np.float32)
    out = Array(np.zeros(256, np.float32), "out")
    kernel("multicast").launch(
        2, 160, [out, TensorMap(Array(values, "A"), (32, 32)), tiles, fault], 4 * 32 * 128
    )
    sums = values.reshape(tiles, 16, 128).sum(axis=1)
    want = [sum(sums[i] * (i + rank) for i in range(tiles)) for rank in (0, 1)]
    assert (out.numpy() == np.concatenate(want)).all()


def swap(kernel, fault=0):
    """Blocks of a cluster read each other."""
    x = np.arange(512, dtype=np.int32)
    out = Array(np.zeros(512, np.int32), "out")
    kernel("swap").launch(4, 128, [out, Array(x), fault])
    assert (out.numpy() == x.reshape(2, 2, 128)[:, ::-1, ::-1].reshape(-1)).all()


def hand_over(kernel, fault=0):
    """A bulk copy between blocks of a cluster."""
    x = np.arange(128, dtype=np.int32)
    out = Array(np.zeros(128, np.int32), "out")
    kernel("hand_over").launch(2, 128, [out, Array(x), fault])
    assert (out.numpy() == x[::-1]).all()


def exchange(kernel, fault=0):
    """st.async between blocks of a cluster."""
    x = np.arange(2048, dtype=np.int32)
    out = Array(np.zeros(2048, np.int32), "out")
    kernel("exchange").launch(4, 128, [out, Array(x), fault])
    assert (out.numpy() == x.reshape(2, 2, 128, 4)[:, ::-1, ::-1].reshape(-1)).all()


def stored(kernel, fault=0):
    """The source of a bulk store is written after it."""
    return put(kernel, np.zeros((16, 64), np.uint16), TILE, fault=fault)


def not_waited(kernel, fault=0):
    kernel("not_waited").launch(1, 32, [TILE], shared_bytes=2048)


def store_and_multiply(kernel, fault=0):
    """Waiting for wgmma is no waiting for a bulk store."""
    kernel("store_and_multiply").launch(
        1, 128, [TILE, Array(np.zeros(128, np.float32)), fault], 4096
    )


def relaxed_arrival(kernel, fault=0):
    """A fence before a relaxed arrival orders."""
    out = Array(np.zeros(64, np.int32), "out")
    kernel("relaxed_arrival").launch(2, 32, [out, fault])
    assert out.numpy().all()


def fix_up(kernel, fault=0, blocks=5, **more):
    """Blocks wait for each other's flags in global memory."""
    x = np.arange(blocks * 4 * 64, dtype=np.float32).reshape(blocks, 4, 64)
    out, flags = (
        Array(np.zeros((4, 64), np.float32), "out"),
        Array(np.zeros(blocks, np.int32), "flags"),
    )
    workspace = Array(np.zeros_like(x), "workspace", unwritten=True)
    kernel("fix_up").launch(blocks, 64, [out, Array(x, "in"), workspace, flags, fault], **more)
    assert (out.numpy() == x[0] + 2 * np.roll(x[1:], -1, axis=2).sum(axis=0)).all()


def warp_flags(kernel, fault=0):
    x = np.arange(3 * 128, dtype=np.float32).reshape(3, 4, 32)
    out, flags = Array(np.zeros((3, 128), np.float32), "out"), Array(np.zeros(4, np.int32), "flags")
    kernel("warp_flags").launch(
        3, 128, [out, Array(x, "in"), Array(np.zeros_like(x), "workspace"), flags, fault]
    )
    assert (out.numpy() == (x + 1).sum(axis=0)[:, ::-1].reshape(-1)).all()


TILE = TensorMap(Array(np.zeros((16, 64), np.uint16), "C"), (16, 64))
RIGHT = {
    run: [0] for run in (ring, multicast, swap, hand_over, exchange, store_and_multiply, warp_flags)
}
RIGHT |= {stored: [3], relaxed_arrival: [0, 2], fix_up: [0, 4]}


@pytest.mark.parametrize(
    ("run", "form"), [(run, form) for run, forms in RIGHT.items() for form in forms]
)
def test_a_kernel_that_is_right_is_silent(kernel, run, form):
    run(kernel, form)


@pytest.mark.parametrize("blocks", [9, 300])
def test_flags_of_more_blocks(kernel, blocks):
    fix_up(kernel, blocks=blocks)


AT = r"tma.cu:\d+(, called from tma.cu:\d+)?"
FAULTS = {
    ring: {
        1: f"for 128 bytes of copies .{AT} expects 8320; {AT} brought 8192. .initialised for 1 arrival at {AT}; "
        f"arrived in this phase: 1 at {AT}; its phase 0 .parity 0. runs, and parity 0 is waited for, which comes "
        f"from {AT}.; also wait: thread .* at {AT} for 2 of",
        2: f"cannot end, as copies brought 128 bytes more than expected .{AT} expects 8064; {AT} brought 8192.",
        3: f"read before the wait: a bulk copy of thread .0, 0, 0., at {AT}, to there has not been waited for",
        4: f"waits for 8192 bytes of copies .{AT} expects 8192.",
        5: f"waits for 1 of 1 arrivals .initialised for 1 arrival at {AT}; nobody has arrived; its phase ",
        6: "mbarrier: more arrivals than the phase expects",
        7: "setmaxnreg.inc waits for registers: 248 a thread .* the block's 12 warps started with 168 a thread",
        8: f"race: writes what thread .*, 0, 0. reads at {AT}, without a barrier between",
        9: f"waits for 2 of 2 arrivals .* nobody has arrived; .* parity 0 is waited for, which comes from {AT}",
        10: f"signals an mbarrier that thread .0, 0, 0. initialises at {AT}, without a fence.mbarrier_init or ",
    },
    stored: {
        1: f"reads what thread .* writes at {AT} by an ordinary store, without a fence.proxy.async between",
        2: f"writes what cp.async.bulk.tensor.2d at {AT} may still read: no cp.async.bulk.wait_group.read",
    },
    store_and_multiply: {
        1: f"writes what cp.async.bulk.tensor.2d at {AT} may still read",
    },
    not_waited: {
        0: "the block ends before anybody waits for this copy to its shared memory",
    },
    hand_over: {
        1: f"writes what cp.async.bulk.* at {AT} may still read",
    },
    relaxed_arrival: {
        1: r"race: changes what block .* writes",
    },
    swap: {
        1: f"race: reads what block .*, thread .* writes at {AT}",
        2: "out-of-bounds shared load of 4 bytes .* in the block of rank 1 of the cluster, which only .shared::cl",
        3: r"accesses shared memory of block \(., 0, 0\), which may have ended: nothing orders its end after this",
    },
    multicast: {
        1: "race: accesses shared memory of a block that may not have begun",
        2: f"waits for 128 of 256 arrivals .initialised for 256 arrivals at {AT}; arrived in this phase: 128 at {AT};"
        f" .*parity 0 is waited for, which comes from {AT}.; also wait: .* at the barrier of the cluster at tma.cu",
        3: f"race: reads what a bulk copy writes at {AT}, before this thread sees its mbarrier's phase end",
    },
    fix_up: {
        1: f"race in global memory: reads what block .*, thread .* writes at {AT}",
        2: f"race in global memory: reads what block .*, thread .* writes at {AT}|that nobody wrote",
        3: f"race in global memory: reads what block .*, thread .* writes at {AT}",
        5: "deadlock: waits in a loop for memory that nobody changes any more",
    },
    warp_flags: {
        1: r"race in global memory: reads what .* writes at",
    },
    exchange: {
        1: f"signals an mbarrier that block .*, thread .0, 0, 0. initialises at {AT}, without a barrier between",
        2: f"race: reads what an st.async writes at {AT}, before this thread sees its mbarrier's phase",
        3: "cannot end, as copies brought 16 bytes more than expected .* expects 2032; .* brought 2048.",
        4: "signals an mbarrier that (nobody has initialised|block .* initialises)",
        5: "st.async: the data and the mbarrier are in different blocks of the cluster",
        6: "out-of-bounds shared::cluster cp.async store of 16 bytes",
        7: f"write: an st.async of thread .0, 0, 0., at {AT}, to there has not been waited for",
        8: f"race: reads what an st.async writes at {AT}, before this thread sees its mbarrier's phase end",
        9: f"read before the wait: an st.async of thread .*, at {AT}, to there has not been waited for",
        10: f"write: an st.async of thread .*, at {AT}, to there has not been waited for",
        11: "the block ends before anybody waits for this copy to its shared memory",
    },
}


@pytest.mark.parametrize(
    ("run", "fault"), [(run, fault) for run, messages in FAULTS.items() for fault in messages]
)
def test_faults_are_found(kernel, monkeypatch, run, fault):
    monkeypatch.setattr("ptxsim.engine.scheduler.IDLE", 500)
    with fails(FAULTS[run][fault]):
        run(kernel, fault)


def test_a_bulk_store_that_nobody_waits_for_is_noted(kernel):
    (note,) = stored(kernel, 4).notes
    assert "a thread ends without a wait_group for this bulk store" in note


def test_a_grid_that_no_device_holds_at_once_is_reported(kernel, monkeypatch):
    monkeypatch.setattr("ptxsim.engine.scheduler.IDLE", 500)
    monkeypatch.setattr("ptxsim.ptx.sizes.SMS", 1)
    message = "32 of the grid's 40 blocks run side by side here, and a block may wait for"
    with fails(message):
        fix_up(kernel, blocks=40, limits=ptxsim.Limits(lanes=64))


def test_counters_of_such_grids_are_not_predicted(kernel):
    x = Array(np.zeros((40, 4, 64), np.float32), "in")
    with fails("a block waits here for what others write"):
        ptxsim.predict(kernel("fix_up"), 40, 64, [x, x, x, x, 0])


def test_a_box_smaller_than_its_tile_is_noted(kernel):
    """Half a tile is stored: of what was written for the elements of C that are missing, nobody
    reads anything.
    """
    source = Array(np.zeros(16 * 128, np.uint8), "in")

    def notes(target):
        args = [source, target, 0, 0, 0, 2048, 2, 0]
        return kernel("put").launch(1, 128, args, shared_bytes=2048).notes

    (note,) = notes(TensorMap(Array(np.zeros((16, 64), np.uint16), "C"), (8, 64)))
    assert "1024 bytes of shared memory are written from 0x800 on, 1024 bytes into shared" in note
    assert "shared, which nothing" in note and "the box of 8x64 elements of C that" in note
    assert notes(TILE) == ()


ROWS = """.visible .entry k(.param .align 64 .b8 map[128]) {{
.reg .b64 %m; .reg .b32 %t, %a, %c, %r, %z, %v<4>; .reg .pred %p; .shared .align 1024 .b8 s[2048];
.shared .align 8 .b8 bar[8];
mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %t, %tid.x; mov.u32 %z, 0;
setp.ne.u32 %p, %t, 0; @%p bra MADE;
mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s+{at}], [%m, {{%z, %z}}], [bar];
MADE: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
and.b32 %r, %t, 7; shr.u32 %c, %t, 3; mov.u32 %a, s; mad.lo.u32 %a, %r, 128, %a;
add.u32 %r, %r, {first}; and.b32 %r, %r, 7; xor.b32 %c, %c, %r; mad.lo.u32 %a, %c, 16, %a;
ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%a+{at}]; ret; }}
"""


@pytest.mark.parametrize(
    ("at", "first", "noted"),
    [(0, 0, False), (128, 1, False), (128, 0, True), (128, 2, False), (512, 4, False)],
)
def test_rows_of_a_box_that_begins_within_the_pattern(at, first, noted):
    """Eight threads read the same 16 bytes of eight rows; `first`: the pattern's row that they take
    the box to begin with.
    """
    taken = TensorMap(Array(np.zeros((8, 64), np.uint16), "A"), (8, 64), swizzle=128)
    notes = ptxsim.load(HEADER + ROWS.format(at=at, first=first)).launch(1, 32, [taken]).notes
    assert len(notes) == noted and all(
        "reads a swizzled box as if the pattern began with it" in note
        and "begins in row 1 of the pattern" in note
        for note in notes
    )


def multiplied(kernel, swizzle=1, at=0, base=0):
    """The notes of a product of a 64x64 tile with its first 8 rows; whether that is right."""
    values = np.random.default_rng(8).integers(-4, 5, (64, 64)).astype(np.float16)
    out = Array(np.zeros((128, 4), np.float32), "out")
    taken = TensorMap(Array(values, "A"), (64, 64), swizzle=128)
    args = [taken, out, swizzle, at, base]
    notes = kernel("load_and_multiply").launch(1, 128, args, at + 64 * 128).notes
    part = values[:, :16].astype(np.float32)
    want, got, lane = part @ part[:8].T, out.numpy(), np.arange(128)
    rows, columns = lane // 32 * 16 + lane % 32 // 4, lane % 4 * 2
    pairs = [(got[:, i], want[rows + 8 * (i // 2), columns + i % 2]) for i in range(4)]
    return notes, all((a == b).all() for a, b in pairs)


@pytest.mark.parametrize(
    ("options", "right", "message"),
    [
        ({}, True, None),
        # by the address: checked on an H100 at 0x480
        *(({"at": at}, True, None) for at in (128, 640, 896)),
        (
            {"swizzle": 2},
            False,
            "reads with a swizzle of 64 bytes what a tensor copy wrote with a swizzle of 128",
        ),
        (
            {"at": 128, "base": 3},
            None,
            "base offset 3 contradicts its start, .* which lies in row 1 of a pattern of",
        ),
        ({"at": 128, "base": 1}, False, "the box begins in row 1 of the pattern"),
    ],
)
def test_swizzles_of_a_map_and_of_wgmma_agree_or_are_noted(kernel, options, right, message):
    notes, found = multiplied(kernel, **options)
    assert right in (None, found)
    assert notes == () if message is None else re.search(message, *notes)


@pytest.mark.parametrize("lanes", [32, 16384])
def test_clusters_that_the_launch_asks_for(kernel, lanes):
    out = Array(np.zeros((6, 4, 5), np.int32), "out")
    kernel("places").launch((4, 6), 32, [out], cluster=(2, 3), limits=ptxsim.Limits(lanes=lanes))
    y, x = np.mgrid[:6, :4]
    want = np.stack([y % 3 * 2 + x % 2, x % 2, y % 3, np.full_like(x, 6), x // 2], axis=2)
    assert (out.numpy() == want).all()


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ((3, 1), r"grid \(4, 6, 1\) is no multiple of its cluster \(3, 1, 1\)"),
        ((4, 6), "a cluster has at most 16 blocks, not 24"),
    ],
)
def test_clusters_that_cannot_be_are_refused(kernel, cluster, message):
    with fails(message):
        kernel("places").launch((4, 6), 32, [Array(np.zeros(120, np.int32))], cluster=cluster)
    other = r"a cluster of \(4, 1, 1\) does not fit its __cluster_dims__ \(2, 1, 1\)"
    with fails(other):
        kernel("swap").launch(4, 32, [A, A, 0], cluster=4)


A = Array(np.zeros((64, 64), np.float16), "A")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": (8, 512)}, "a box of 512 elements along a dimension; allowed: 1 to 256"),
        (
            {"box": (8, 7)},
            "a box of 14 bytes along the innermost dimension; allowed: multiples of 16",
        ),
        (
            {"box": (8, 64), "swizzle": 64},
            "a box of 128 bytes along the innermost dimension is more than its swizzle",
        ),
        (
            {"box": (8, 64), "swizzle": 96},
            "swizzle = 96 is not allowed; allowed: none, 0, 32, 64, 128",
        ),
        ({"box": (8,)}, "a box of 1 dimensions for a tensor of 2"),
        (
            {"box": (8, 8), "shape": (64, 60), "strides": (120,)},
            "a stride of 120 bytes; allowed: multiples of 16",
        ),
        ({"box": (257, 8)}, "a box of 257 elements along a dimension; allowed: 1 to 256"),
        (
            {"box": (8, 8), "offset": 2},
            "its last element ends 8194 bytes behind its start; the array has 8192",
        ),
        (
            {"box": (8, 8), "shape": (65, 64)},
            "its last element ends 8320 bytes behind its start; the array has 8192",
        ),
        ({"box": (8, 8), "interleave": "16B"}, "interleave = '16B' is not allowed; allowed: none"),
        ({"box": (8, 8), "fill": "nan"}, "fill = 'nan' is not allowed; allowed: zeros"),
        (
            {"box": (8, 8), "element_strides": (1, 2)},
            r"element strides \(1, 2\) are not supported, only 1",
        ),
        ({"box": (1,) * 6, "shape": (1,) * 6}, "6 dimensions; allowed: 1 to 5"),
    ],
)
def test_maps_that_the_driver_refuses_are_refused(options, message):
    with fails(f"tensor map of A: {message}"):
        TensorMap(A, **options)


def test_a_map_of_a_misaligned_array_is_refused(kernel):
    taken = TensorMap(Array(np.zeros((64, 64), np.float16), "A", offset=8), (8, 64))
    message = r"tensor map of A: its address 0x[0-9a-f]* is not aligned to 16 bytes"
    with fails(message):
        fetched(kernel, taken, (0, 0))


@pytest.mark.parametrize(
    ("message", "options"),
    {
        "misaligned box at shared address 0x840, which tensor copies take at multiples of 128": {
            "place": 64
        },
        "1 coordinates, but the tensor map of A has 2 dimensions": {"entry": "box_1d"},
    }.items(),
)
def test_copies_that_do_not_fit_their_map_are_found(kernel, options, message):
    with fails(message):
        fetched(kernel, TensorMap(A, (8, 64), swizzle=128), (0, 0), **options)


TWO_STORES = (
    "{.reg .pred %p; mov.u32 %r4, %tid.x; setp.ne.u32 %p, %r4, 0; @%p exit; "
    "st.shared.v4.u32 [%r1], {%r3, %r3, %r3, %r3}; st.shared.v4.u32 [%r1+16], {%r3, %r3, %r3, %r3};"
    "fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r1], 16; cp.async.bulk.commit_group;"
    "cp.async.bulk.global.shared::cta.bulk_group [%rd3+16], [%r1+16], 16; cp.async.bulk.commit_group;"
    "cp.async.bulk.wait_group.read 1; st.shared.u32 [%r1+AT], %r3; cp.async.bulk.wait_group 0;}"
)


def sent(kind: str, data: str, order: str = "weak") -> str:
    """Lines in which a thread sends 8 bytes by st.async, and waits for them."""
    return (
        "{.reg .pred %p; mov.u32 %r4, %tid.x; setp.ne.u32 %p, %r4, 0; @%p exit; add.u32 %r2, %r1, 64;"
        "mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 8;"
        f"st.async.{order}.shared::cluster.mbarrier::complete_tx::bytes.{kind} [%r1], {data}, [%r2];"
        "l: mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra l;}"
    )


TWO_LANES = (
    "{.reg .pred %p; mov.u32 %r4, %tid.x; setp.gt.u32 %p, %r4, 1; @%p exit; add.u32 %r2, %r1, 2048;"
    "setp.eq.u32 %p, %r4, 0; @%p mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;"
    "@%p mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64; bar.warp.sync 3; mad.lo.u32 %r5, %r4, STEP, %r1;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd3], 32, [%r2];"
    "l: mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra l;}"
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (TWO_LANES.replace("STEP", "32"), None),
        (
            TWO_LANES.replace("STEP", "16"),
            r"write: a bulk copy of thread \(0, 0, 0\), at .* has not been waited for",
        ),
        (TWO_STORES.replace("AT", "0"), None),
        (TWO_STORES.replace("AT", "16"), "may still read: no cp.async.bulk.wait_group.read"),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global [%rd2, {%r3, %r3}];", None),
        ("cp.async.bulk.prefetch.L2.global [%rd3], 64;", None),
        (
            "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd2, {%r3}];",
            "1 coordinates, but the tensor map of A has 2",
        ),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global [%rd2, {%r3}];", "with 1 coordinates"),
        (
            "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd3, {%r3, %r3}];",
            "there is no tensor map at generic address",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%r1], [%rd2, {%r3, %r3}], [%r1];",
            "takes 4 to 5 operands, found 3",
        ),
        (
            "{.reg .b16 %h; .reg .pred %p; mov.u32 %r4, %tid.x; setp.ne.u32 %p, %r4, 0; @%p exit;"
            "mov.b16 %h, 0; add.u32 %r2, %r1, 2048; mbarrier.init.shared.b64 [%r2], 1;"
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%r1], [%rd2, {%r3, %r3}], [%r2], %h;}",
            "a multicast to the blocks of mask 0x0, but the cluster has 1",
        ),
        ("mbarrier.init.b64 [%rd2], 1;", "an mbarrier that is not in shared memory"),
        (sent("v2.f32", "{0f3F800000, 0f3F800000}"), None),
        (sent("b64", "%rd2"), None),
        (
            sent("v4.b64", "{%rd2, %rd2, %rd2, %rd2}"),
            "a store of 4 times 8 bytes",
        ),
        (sent("b16", "0"), "a store of 1 times 2 bytes"),
        (
            sent("b32", "%r3", "release"),
            "a form other than .weak",
        ),
        ("mapa.u32 %r3, %r1, 1;", "mapa: rank 1, but the cluster has 1 block"),
        ("barrier.cluster.aligned;", "neither .arrive nor .wait"),
        ("barrier.cluster.wait;", "barrier.cluster.wait without an arrive before it"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "a second time without a wait between"),
        ("setmaxnreg.sync.aligned.u32 240;", "neither .inc nor .dec"),
        ("setmaxnreg.inc.sync.aligned.u32 241;", "a multiple of 8 from 24 to 256, not 241"),
    ],
)
def test_lines_of_ptx(line, message):
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .align 64 .b8 m[128], .param .u64 p) {\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 1024 .b8 s[4096];\n"
        "mov.u64 %rd1, m; cvta.param.u64 %rd2, %rd1; ld.param.u64 %rd3, [p]; mov.u32 %r1, s; mov.u32 %r3, 0;\n"
        f"{line}\nret;\n}}"
    )

    def run():
        return ptxsim.load(text).launch(1, 32, [TensorMap(A, (8, 64)), A])

    if message is None:
        assert run().notes == ()
    else:
        with fails(message):
            run()


@pytest.mark.parametrize(("at", "message"), [(0, None), (4, "register %r7, which nobody wrote")])
def test_what_nobody_wrote_may_be_sent_and_not_used(at, message):
    """st.async of a register that is defined and of one that is not."""
    lines = sent("v2.b32", "{%r3, %r7}").rstrip("}")
    text = (
        ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 s[128];\n"
        f"ld.param.u64 %rd3, [p]; mov.u32 %r1, s; mov.u32 %r3, 7;\n{lines}\n"
        f"ld.shared.u32 %r5, [%r1+{at}]; st.global.u32 [%rd3], %r5; }}\nret;\n}}"
    )
    kernel, out = ptxsim.load(text), Array(np.zeros(1, np.int32))
    if message is None:
        kernel.launch(1, 32, [out])
        assert out.numpy() == 7
        counters, name = kernel.count(1, 32, [out]), "smsp__inst_executed_op_shared_st.sum"
        assert "st.async is left out" in counters.at_least()[name] and not counters.totals()[name]
    else:
        with fails(message):
            kernel.launch(1, 32, [out])


def test_a_box_that_is_larger_than_its_memory_is_found(kernel):
    args = [Array(np.zeros(1024, np.uint8), "out"), TensorMap(A, (16, 64)), 0, 0, 0, 1024, 2048, 0]
    with fails(r"out-of-bounds shared cp.async store of 2048 bytes"):
        kernel("box_2d").launch(1, 64, args, shared_bytes=1024)


# counters


def counted(kernel, **more):
    values = np.zeros((500, 32), np.float32)
    args = [Array(np.zeros(256, np.float32), "out"), TensorMap(Array(values, "A"), (64, 32)), 8, 0]
    return kernel("ring").count(1, 384, args, shared_bytes=3 * 64 * 128, **more).totals()


def test_sectors_of_boxes(kernel):
    found = counted(kernel)
    # the last box lies inside but for its last rows
    assert found["l2_sectors_bulk_ld.sum"] == 500 * 32 * 4 // 32
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 0
    # the consumers' loads, none of the copies
    assert found["memory_l1_wavefronts_shared"] == 8 * 16 * 8


def test_counters_of_clusters_are_predicted(kernel):
    values = np.zeros((64 * 5, 32), np.float32)
    args = [Array(np.zeros(24 * 128, np.float32)), TensorMap(Array(values, "A"), (32, 32)), 5, 0]
    launch = 24, 160, args, 4 * 32 * 128
    predicted = ptxsim.predict(kernel("multicast"), *launch, by_instruction=True)
    counters = kernel("multicast").count(*launch)
    assert predicted.totals == counters.totals() and predicted.sampled < 24
    sectors = 24 * 5 * 32 * 128 // 32
    assert predicted.totals["l2_sectors_bulk_ld.sum"] == sectors
    for found in (predicted.counters, counters):
        boxes = [stats for stats in found.by_instruction() if stats.kind == "bulk_ld"]
        sums = [sum(getattr(s, name) for s in boxes) for name in ("ideal_sectors", "bytes")]
        assert sums == [sectors, 32 * sectors]


# the command line


def ptxsim_run(*arguments: str) -> int:
    options = ["--entry=put", "--grid=1", "--block=128", "--shared=2048"]
    return main(["run", str(KERNELS / "tma.cu"), *options, *arguments])


def test_a_tensor_map_on_the_command_line(kernel, tmp_path, capsys):
    saved = tmp_path / "c.npy"
    args = [
        "random:u8:2048",
        f"out={saved}=tma=zeros:u16:40x72:box=16x64:swizzle=128:shape=40x70:strides=144",
        *["24", "30", "0", "2048", "2", "0"],
    ]
    assert ptxsim_run(*[word for a in args for word in ("--arg", a)]) == 0
    written = np.load(saved)
    assert written[30:, 24:70].any() and not written[:30].any() and not written[:, 70:].any()
    assert "l2_sectors_bulk_st.sum" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "message"),
    {
        "tma=zeros:u16:40x72": "expected tma=ARRAY:box=64x64, with an array",
        "tma=5:box=8x8": "expected tma=ARRAY:box=64x64, with an array",
        "tma=zeros:u16:40x72:box=8xa": "box=8xa: expected whole numbers, as in box=64x64",
        "tma=zeros:u16:40x72:boxes=8x8": "'boxes' is not known of a tensor map; known: box, shape, strides, swizzle",
        "tma=zeros:u16:40x72:box=8x72:swizzle=128": "144 bytes along the innermost dimension is more than its swizzle",
    }.items(),
)
def test_wrong_tensor_maps_on_the_command_line(argument, message):
    with fails(message):
        parse_argument(argument, 0)


def made(kernel, columns=72, rows=40, at=(30, 24), fault=0):
    tensor = np.random.default_rng(9).integers(0, 2**16, (40, 72)).astype(np.uint16)
    out, space = Array(np.zeros(2048, np.uint8), "out"), Array(np.zeros(128, np.uint8), "map")
    y, x = at
    kernel("made_map").launch(
        1, 32, [out, Array(tensor, "A"), space, rows, columns, x, y, fault], shared_bytes=2048
    )
    return out.numpy(), tensor


@pytest.mark.parametrize("at", [(0, 0), (30, 24), (-5, -9)])
def test_a_map_that_the_device_makes(kernel, at):
    got, tensor = made(kernel, at=at)
    assert (got == laid_out(window(tensor, at, (16, 64)), 128)).all()


def test_faults_of_a_map_that_the_device_makes(kernel):
    stride = "tensor map of memory: a stride of 10 bytes; allowed: multiples of 16"
    with fails(stride):
        made(kernel, fault=1)
    beyond = r"out-of-bounds global cp\.async load of .* bytes past the end of A"
    with fails(beyond):
        made(kernel, rows=44)


def test_a_map_of_the_host_that_the_device_changes(kernel):
    first, other = (
        np.random.default_rng(n).integers(0, 2**16, (16, 64)).astype(np.uint16) for n in (1, 2)
    )
    out, space = Array(np.zeros(2048, np.uint8), "out"), Array(np.zeros(128, np.uint8), "map")
    given = TensorMap(Array(first, "A"), (16, 64), swizzle=128)
    kernel("changed_map").launch(1, 32, [out, given, space, Array(other, "B")], shared_bytes=2048)
    assert (out.numpy() == laid_out(other, 128)).all()
