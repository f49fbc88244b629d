"""Measures items in a child process, so that a kernel that faults or hangs costs its item alone.

A CUDA context that a kernel has spoilt answers every later call with the same error. The process
that holds it is replaced then, and a fresh one goes on with the items that are left. So it is when
a process dies, or when an item keeps the GPU for longer than `LIMIT_S`: the process sets itself an
alarm, which ends it also while a driver call does not return. Waiting for the GPU does not count.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from contracts import UserError

T = TypeVar("T")
R = TypeVar("R")

LIMIT_S = 120.0  # No kernel of the catalogue holds the GPU for so long for one item.
# These come from a person, the end of a time slot, or the lack of memory.
OUTSIDE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
END_S = 10.0  # A process has so long to unlock clocks and end by itself.
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class DeviceFault(UserError):
    """A CUDA error after which the context is of no use: a kernel's fault."""


@dataclass(frozen=True)
class Failure:
    """Why an item has no result. of_kernel: its kernel faulted or hung, and would do so again."""

    reason: str
    of_kernel: bool


@dataclass(frozen=True)
class Watch:
    """Ends this process where it holds the GPU for longer than `limit_s` at a time."""

    limit_s: float = LIMIT_S

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Enforce the limit while the block runs."""
        signal.setitimer(signal.ITIMER_REAL, self.limit_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


Task = Callable[[T], R]
Opened = Callable[[Watch], AbstractContextManager[Task[T, R]]]


def work_through(
    items: Sequence[T], opened: Opened[T, R], limit_s: float = LIMIT_S, start: str = "fork"
) -> Iterator[tuple[T, R | Failure]]:
    """Yield each item with its result, in order, as they come.

    `opened(watch)` is entered in the measuring process before its first item, and what it gives is
    called with each item. Results are pickled on their way. A `UserError` of an item is its
    `Failure`, and the same process goes on. After a `DeviceFault`, a death or a hang, a fresh one
    does. A process that was killed from outside says nothing about its kernel.

    :param start: a fork begins with all that is imported here; "spawn" is for a parent that may
        have used CUDA, and needs an `opened` that can be pickled.

    Raises `UserError` where a process cannot begin or does not end well, and `RuntimeError` with
    its traceback for a fault of this program.
    """
    left = list(items)
    while left:
        with _process(left, opened, limit_s, start) as (process, pipe):
            last = False
            while left and not last:
                last, result = _received(process, pipe, limit_s)
                yield left.pop(0), result
            if not last:  # It has no more items, and may still fail to end well.
                _received(process, pipe, limit_s)


@contextlib.contextmanager
def _process(
    items: Sequence[T], opened: Opened[T, R], limit_s: float, start: str
) -> Iterator[tuple[BaseProcess, Connection]]:
    """Yield a process that works through `items`, and the pipe on which its results come."""
    context: Any = multiprocessing.get_context(start)
    pipe, theirs = context.Pipe(duplex=False)
    arguments = (theirs, list(items), opened, limit_s)
    process = context.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, pipe
    finally:
        pipe.close()
        process.join(END_S)
        for end in (process.terminate, process.kill):
            if process.is_alive():
                end()
                process.join(END_S)


def _received(process: BaseProcess, pipe: Connection, limit_s: float) -> tuple[bool, Any]:
    """Return whether this is the process's last result, and the next item's result."""
    try:
        last, result = pipe.recv()
    except (EOFError, OSError):
        process.join()
        number = -(process.exitcode or 0)
        reason = f"the measuring process ended (exit code {process.exitcode})"
        if number == signal.SIGALRM:
            reason = f"the GPU did not finish within {limit_s:.0f} s: the kernel hangs"
        return True, Failure(reason, of_kernel=number not in OUTSIDE)
    if isinstance(result, Exception):
        raise result
    return last, result


def _serve(
    pipe: Connection, items: Sequence[Any], opened: Opened[Any, Any], limit_s: float
) -> None:
    """Run the process: send (whether it is its last, a result), or an exception to be raised."""
    # It takes a while to import, for which others need not wait.
    from cuda.core._utils.cuda_utils import CUDAError

    # The process does not outlive a parent that is killed, and an alarm ends it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        with opened(Watch(limit_s)) as task:
            for item in items:
                spoilt = False
                try:
                    result = task(item)
                except (DeviceFault, CUDAError) as fault:
                    result, spoilt = Failure(str(fault), of_kernel=True), True
                except UserError as error:
                    result = Failure(str(error), of_kernel=False)
                pipe.send((spoilt, result))
                if spoilt:
                    return
    except KeyboardInterrupt:
        return  # The parent reports it.
    except (UserError, CUDAError) as error:
        pipe.send((True, UserError(str(error))))
    except Exception:
        pipe.send((True, RuntimeError(traceback.format_exc())))
