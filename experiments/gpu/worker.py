"""Works through a list in a process of its own, so that a kernel that faults or hangs costs its own item alone.

A CUDA context that a kernel has spoilt answers every later call with the same error. The process that holds it is
replaced then, and a fresh one goes on with the rest of the list. So it is when a process dies, or when an item keeps
the GPU for longer than `LIMIT_S`; waiting for the GPU does not count.
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
from typing import Any, Generic, TypeVar

from contracts import UserError

T = TypeVar("T")
R = TypeVar("R")

LIMIT_S = 120.0  # of holding the GPU for one item: more than the slowest kernel of the catalogue needs
OUTSIDE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)  # a person, a time slot, the lack of memory
END_S = 10.0  # for a process to end by itself, clocks unlocked
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class DeviceFault(UserError):
    """A CUDA error after which the context is of no use: a kernel's fault."""


@dataclass(frozen=True)
class Failure:
    """Why an item has no result. `of_kernel`: its kernel faulted or hung, and measuring it again would not help."""

    reason: str
    of_kernel: bool


class Watch:
    """Tells the process that waits for results while this one holds the GPU."""

    def __init__(self, pipe: Connection | None = None) -> None:
        self._pipe = pipe

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Around the time for which `LIMIT_S` counts."""
        self._tell("holds")
        try:
            yield
        finally:
            self._tell("free")

    def _tell(self, state: str) -> None:
        if self._pipe:
            self._pipe.send((state, None))


Task = Callable[[T], R]
Opened = Callable[[Watch], AbstractContextManager[Task[T, R]]]


def work_through(items: Sequence[T], opened: Opened[T, R], limit_s: float = LIMIT_S) -> Iterator[tuple[T, R | Failure]]:
    """Each item with its result, in order, as they come.

    `opened(watch)` is entered in the worker process, before its first item; what it gives is called with each item.
    A `UserError` of an item is its `Failure`, and the same process goes on; after a `DeviceFault`, a death or a hang,
    a fresh one does. A process that was killed from outside says nothing about its kernel. Raises `UserError` where a
    process cannot begin or does not end well, `RuntimeError` with its traceback for a fault of this program.
    """
    left = list(items)
    while left:
        with _Process(left, opened, limit_s) as process:
            for item in list(left):
                result = process.next()
                left.pop(0)
                yield item, result
                if process.ended:
                    break
            else:
                process.finish()


class _Process(Generic[T, R]):
    """A worker process that goes through `items`. Forked, so that it begins with all that is imported here."""

    def __init__(self, items: Sequence[T], opened: Opened[T, R], limit_s: float) -> None:
        self.limit_s, self.ended = limit_s, False  # ended: nothing more comes of it
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(theirs, list(items), opened), daemon=True)
        self.process.start()
        theirs.close()

    def __enter__(self) -> _Process[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.process.join(END_S)
        for end in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                end()
                self.process.join(END_S)

    def finish(self) -> None:
        """Wait for the end of the process. Raises `UserError` where it does not end well."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, value = self.pipe.recv()
                if kind == "failed":
                    raise UserError(value)

    def next(self) -> R | Failure:
        """The next item's result."""
        holds = False
        while True:
            if not self.pipe.poll(self.limit_s if holds else None):
                self.process.kill()  # what hangs heeds no signal
                self.ended = True
                return Failure(f"the GPU did not finish within {self.limit_s:.0f} s: the kernel hangs", of_kernel=True)
            try:
                kind, value = self.pipe.recv()
            except (EOFError, OSError):
                self.process.join()
                self.ended, code = True, self.process.exitcode or 0
                return Failure(f"the measuring process ended (exit code {code})", of_kernel=-code not in OUTSIDE)
            if kind in ("holds", "free"):
                holds = kind == "holds"
            elif kind == "failed":
                raise UserError(value)
            elif kind == "bug":
                raise RuntimeError(value)
            else:
                result: R | Failure = value
                self.ended = isinstance(result, Failure) and result.of_kernel  # with its context, a process is spoilt
                return result


def _serve(pipe: Connection, items: Sequence[Any], opened: Opened[Any, Any]) -> None:
    """The process."""
    from cuda.core._utils.cuda_utils import CUDAError  # takes a while to import, which others need not wait for

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # it does not outlive a parent that is killed
    try:
        with opened(Watch(pipe)) as task:
            for item in items:
                try:
                    pipe.send(("done", task(item)))
                except (DeviceFault, CUDAError) as fault:
                    pipe.send(("done", Failure(str(fault), of_kernel=True)))
                    return
                except UserError as error:
                    pipe.send(("done", Failure(str(error), of_kernel=False)))
    except BrokenPipeError:
        return  # nobody waits any more
    except KeyboardInterrupt:
        return  # as the parent, which says so
    except UserError as error:
        pipe.send(("failed", str(error)))
    except Exception:
        pipe.send(("bug", traceback.format_exc()))
