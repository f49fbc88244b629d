"""Measures items in a process of its own, so that a kernel that faults or hangs costs its own item
alone.

A CUDA context that a kernel has spoilt answers every later call with the same error. The process
that holds it is replaced then, and a fresh one goes on with the items that are left. So it is when
a process dies, or when an item keeps the GPU for longer than `LIMIT_S`; waiting for the GPU does
not count.
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
from typing import Any, Generic, TypeVar

from contracts import UserError

T = TypeVar("T")
R = TypeVar("R")

# of holding the GPU for one item: more than the slowest kernel of the catalogue needs
LIMIT_S = 120.0
# a person, a time slot, the lack of memory
OUTSIDE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
END_S = 10.0  # for a process to end by itself, clocks unlocked
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class DeviceFault(UserError):
    """A CUDA error after which the context is of no use: a kernel's fault."""


@dataclass(frozen=True)
class Failure:
    """Why an item has no result. `of_kernel`: its kernel faulted or hung, and measuring it again
    would not help.
    """

    reason: str
    of_kernel: bool


class Watch:
    """Tells the process that waits for results while this one holds the GPU.

    `spoilt`: set by a task that returns a result although its kernel spoilt the context; a fresh
    process does the next.
    """

    def __init__(self, pipe: Connection | None = None) -> None:
        self._pipe = pipe
        self.spoilt = False

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


def work_through(
    items: Sequence[T], opened: Opened[T, R], limit_s: float = LIMIT_S
) -> Iterator[tuple[T, R | Failure]]:
    """Each item with its result, in order, as they come; all that a `Worker` is for, with no wait
    between two items.

    Raises as `Worker.next` does, and `UserError` where a process does not end well.
    """
    left = list(items)
    with Worker(opened, limit_s) as worker:
        while left:
            worker.give(left)
            for item in list(left):
                result = worker.next()
                left.pop(0)
                yield item, result
                if worker.lost:
                    break
        worker.finish()


class Worker(Generic[T, R]):
    """A process that measures the items it is given, and a fresh one wherever it is lost.

    `opened(watch)` is entered in the process, before its first item; what it gives is called with
    each item. A `UserError` of an item is its `Failure`, and the same process goes on; after a
    `DeviceFault`, a death or a hang, a fresh one does. A process that was killed from outside says
    nothing about its kernel.

    Items and results are pickled on their way. A forked process begins with all that is imported
    here; `start`="spawn" is for a parent that has threads, and needs an `opened` that can be
    pickled, too.
    """

    def __init__(self, opened: Opened[T, R], limit_s: float = LIMIT_S, start: str = "fork") -> None:
        self.opened, self.limit_s = opened, limit_s
        self.lost = True  # no process is there, or nothing more comes of it
        self._context: Any = multiprocessing.get_context(start)
        self._process: BaseProcess | None = None

    def __enter__(self) -> Worker[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._pipe.close()
        self._process.join(END_S)
        for end in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                end()
                self._process.join(END_S)

    def do(self, item: T) -> R | Failure:
        """One item's result."""
        self.give([item])
        return self.next()

    def give(self, items: Sequence[T]) -> None:
        """Let the process, a fresh one if need be, work through `items`: then `next` is each one's
        result.
        """
        if self.lost:
            self.__exit__()
            self._pipe, theirs = self._context.Pipe()
            arguments = (theirs, self._pipe, self.opened)
            self._process = self._context.Process(target=_serve, args=arguments, daemon=True)
            self._process.start()
            theirs.close()
            self.lost = False
        with contextlib.suppress(OSError):  # of a process that is gone: `next` says so
            self._pipe.send(items)

    def next(self) -> R | Failure:
        """The next item's result.

        Raises `UserError` where a process cannot begin, `RuntimeError` with its traceback for a
        fault of this program.
        """
        assert self._process
        holds = False
        while True:
            if not self._pipe.poll(self.limit_s if holds else None):
                self._process.kill()  # what hangs heeds no signal
                self.lost = True
                return Failure(
                    f"the GPU did not finish within {self.limit_s:.0f} s: the kernel hangs",
                    of_kernel=True,
                )
            try:
                kind, value = self._received()
            except (EOFError, OSError):
                self._process.join()
                self.lost, code = True, self._process.exitcode or 0
                return Failure(
                    f"the measuring process ended (exit code {code})",
                    of_kernel=-code not in OUTSIDE,
                )
            if kind in ("holds", "free"):
                holds = kind == "holds"
            else:
                self.lost = kind == "last"
                result: R | Failure = value
                return result

    def finish(self) -> None:
        """Wait for the end of the process. Raises `UserError` where it does not end well."""
        with contextlib.suppress(EOFError, OSError):
            if not self.lost:
                self._pipe.send(None)
                while True:
                    self._received()

    def _received(self) -> tuple[str, Any]:
        kind, value = self._pipe.recv()
        if kind == "failed":
            raise UserError(value)
        if kind == "bug":
            raise RuntimeError(value)
        return kind, value


def _serve(pipe: Connection, parents_end: Connection, opened: Opened[Any, Any]) -> None:
    """The process."""
    # takes a while to import, which others need not wait for
    from cuda.core._utils.cuda_utils import CUDAError

    parents_end.close()  # or this process would not see the parent close it
    # it does not outlive a parent that is killed
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    watch = Watch(pipe)
    try:
        with opened(watch) as task:
            for item in _given(pipe):
                try:
                    result = task(item)
                except (DeviceFault, CUDAError) as fault:
                    result, watch.spoilt = Failure(str(fault), of_kernel=True), True
                except UserError as error:
                    result = Failure(str(error), of_kernel=False)
                pipe.send(("last" if watch.spoilt else "done", result))
                if watch.spoilt:
                    return
    except BrokenPipeError:
        return  # nobody waits any more
    except KeyboardInterrupt:
        return  # as the parent, which says so
    except (UserError, CUDAError) as error:
        pipe.send(("failed", str(error)))
    except Exception:
        pipe.send(("bug", traceback.format_exc()))


def _given(pipe: Connection) -> Iterator[Any]:
    """The items that the parent gives, until it says that there are no more, or is gone."""
    with contextlib.suppress(EOFError, ConnectionError):
        for items in iter(pipe.recv, None):
            yield from items
