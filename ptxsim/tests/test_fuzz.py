"""Whatever a PTX file says, ptxsim takes it or says in one line what is wrong, and comes to an end.

FUZZ_EXAMPLES says how many of each; few in the normal run. Every case is made from its number
alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from collections.abc import Iterator

import numpy as np
import pytest

import ptxsim
from ptxsim.count.counters import Counters, totals
from ptxsim.ptx.parser import TOKEN

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "250"))
LONGEST_S = 10  # of processor time: a slow machine does not count
FILES = ("features.cu", "faults.cu", "merging.cu", "foreign.cu", "foreign_sm90.cu")
LIMITS = ptxsim.Limits(steps=3000, lanes=128, depth=4)
WORDS = re.findall(
    r"\S+",
    """
; ; { } [ ] ( ) , : + - ! @ | _ . 0 1 -1 3 4 7 09 0x7fffffff 4294967295 18446744073709551615 99999999999999999999
0f7F800000 0f00000000 0d7FF0000000000000 1.5 1e400 %p1 %p2 %r1 %r2 %rd1 %rd2 %f1 %rs1 %h1 %tid.x %laneid %clock64
%envreg3 %nothing nothing WARP_SZ {%r1,%r2} {%r1} {} {{%r1}} [%rd1] [%rd1+3] [%r1] [0] [] [%rd1+%rd2] %p1|%p2 %r1|%p1
_|%p1 !%p1 !%r1 $L__BB0_1 ret; exit; bra.uni bra ret trap bar.sync mov.u32 mov.b64 mov.pred ld.global.u32
ld.shared.v4.f32 st.global.u32 st.shared.v2.u64 ld.param.u64 add.s32 add.f32 add.f16x2 setp.eq.s32 selp.b32
cvt.rn.f32.u32 cvta.to.global.u64 atom.add.global.u32 red.global.add.f32 shfl.sync.idx.b32 vote.sync.ballot.b32
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ldmatrix.sync.aligned.m8n8.x4.shared.b16 tex.1d.v4.f32.s32
cp.async.ca.shared.global cp.async.wait_group cp.async.commit_group mbarrier.init.shared.b64
mbarrier.arrive.shared.b64 call.uni brx.idx set.eq.s32.s32 bfe.u32 prmt.b32 shf.l.wrap.b32 fma.rn.f32 mad.wide.u32
mul.lo.s64 div.s32 lop3.b32 isspacep.shared mapa.u64 redux.sync.add.s32 elect.sync match.any.sync.b32 activemask.b32
bar.red.popc.u32 barrier.sync stmatrix.sync.aligned.m8n8.x1.shared.b16 alloca.u32 movmatrix
wmma.load.a.sync.aligned.row.m16n16k16.f16 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
fence.proxy.async vadd2.s32.s32.s32 .u8 .u16 .s32 .b64 .f16 .f32 .f64 .pred .shared .global .local .param .const .v2
.v4 .wide .hi .sat .cc .ftz .align .reg .b8 .entry .func .visible .extern .loc .file .branchtargets .version .target
.maxntid .reqntid .pragma .section .texref
""",
)


@contextlib.contextmanager
def named(what: object) -> Iterator[None]:
    """What is refused is a `PtxsimError` of one line; anything else, or no end, fails and names the
    case.
    """

    def hang(*_: object) -> None:
        raise AssertionError(f"{what}: no end within {LONGEST_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        yield
    except ptxsim.PtxsimError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 5000, f"{what}: {error}"
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def alone(text: str) -> list[str]:
    """Each entry of a PTX text as a text of its own, with all variables and device functions."""
    function = re.compile(r"^(?:\.visible |\.weak )*\.(entry|func)\b[^{;]*\{.*?^\}\n", re.M | re.S)
    found = list(function.finditer(text))
    head = text[: found[0].start()] + "".join(f[0] for f in found if f[1] == "func")
    return [head + f[0] for f in found if f[1] == "entry"]


@pytest.fixture(scope="module")
def kernels(ptx) -> list[str]:
    """Small kernels, as PTX; the longer ones, and those with many device functions, are left
    out.
    """
    found = [text for name in FILES for text in alone(ptx(name))]
    return [text for text in found if len(text) < 12_000 and understood(text)]


def understood(text: str) -> bool:
    """Whether an entry is one that ptxsim takes, and was cut out whole."""
    with contextlib.suppress(ptxsim.PtxsimError):
        return bool(ptxsim.load("\n" + text))
    return False


def mutated(text: str, random_: random.Random) -> str:
    """One to three changes of tokens, operands, modifiers, lines or characters, mostly within the
    body.
    """
    for _ in range(random_.randint(1, 3)):
        body = text.find("{") if random_.random() < 0.9 else 0
        tokens = [
            m for m in TOKEN.finditer(text, max(body, 0)) if m.lastgroup not in ("space", "newline")
        ] or [None]
        token, other = random_.choice(tokens), random_.choice(tokens)
        if not token:
            break
        start, end = token.span()
        match random_.randrange(6):
            case 0 | 1:  # another token of the file, or any
                text = (
                    text[:start]
                    + (other[0] if random_.random() < 0.5 else random_.choice(WORDS))
                    + text[end:]
                )
            case 2:  # one less: one token, or all up to another
                text = (
                    text[:start] + text[end if random_.random() < 0.8 else max(end, other.end()) :]
                )
            case 3:
                text = f"{text[:end]} {random_.choice(WORDS)} {text[end:]}"
            case 4:  # another opcode, or a modifier more or less
                parts = token[0].split(".")
                parts.insert(random_.randint(1, len(parts)), random_.choice(WORDS).lstrip("."))
                if random_.random() < 0.5:
                    del parts[random_.randrange(len(parts))]
                text = text[:start] + ".".join(parts) + text[end:]
            case _:
                place = random_.randint(0, len(text))
                rest = text[place + 1 :] if random_.random() < 0.9 else ""
                text = text[:place] + random_.choice('\0\n".09\\}é٣') + rest
    return text


def launch(text: str, random_: random.Random) -> None:
    """Run a kernel with arguments that fit its parameters, small and mostly harmless."""
    kernel = ptxsim.load("\n" + text)
    values = []
    for parameter in kernel.parameters:
        if parameter.type.bits == 64 and parameter.size == 8 and parameter.type.kind != "f":
            values.append(ptxsim.Array(np.arange(4096, dtype=np.uint32) % 32))
        elif (
            parameter.type.kind in "suf"
            and parameter.size == parameter.type.bytes
            and parameter.size > 2
        ):
            values.append(random_.choice([0, 1, 8, 64]))
        else:
            values.append(bytes(parameter.size))
    counters = Counters()
    observers = [counters] if random_.random() < 0.3 else []
    blocks, threads, goes_on = (
        random_.choice([1, 3]),
        random_.choice([32, 64, 33]),
        random_.random() < 0.5,
    )
    kernel.launch(
        blocks, threads, values, 1024, observers=observers, limits=LIMITS, stop_at_first=not goes_on
    )
    if observers:
        totals(counters.by_instruction())


def test_mutated_ptx(kernels, capsys):
    assert len(kernels) > 80
    for number in range(EXAMPLES):
        random_ = random.Random(number)
        text = mutated(random_.choice(kernels), random_)
        with named(f"PTX {number}"):
            launch(text, random_)
    capsys.readouterr()
