"""Items measured in a process of its own: what a kernel that faults, dies or hangs costs, and
nothing more.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from contracts import UserError
from experiments.gpu import worker
from experiments.gpu.worker import DeviceFault, Failure, Watch, work_through

ITEMS = ["one", "two", "three", "four"]


def doing(
    **deeds: Callable[[Watch], object],
) -> Callable[[Watch], contextlib.AbstractContextManager]:
    """A worker that answers each item with its process and the item, but does what `deeds` has for
    it.
    """

    @contextlib.contextmanager
    def opened(watch: Watch) -> Iterator[Callable[[str], tuple[int, str]]]:
        def task(item: str) -> tuple[int, str]:
            with watch.holding():
                deeds.get(item, lambda _: None)(watch)
            return os.getpid(), item

        yield task

    return opened


def fail(error: Exception) -> Callable[[Watch], object]:
    def deed(_: Watch) -> object:
        raise error

    return deed


def crash() -> None:
    """As a driver may that a kernel has confused; without Python's own words on it."""
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def results(opened: Callable) -> dict[str, tuple[int, str] | Failure]:
    return dict(work_through(ITEMS, opened))


def test_all_in_one_process_which_is_not_this_one() -> None:
    found = results(doing())
    assert [result[1] for result in found.values()] == ITEMS
    assert len({result[0] for result in found.values()} - {os.getpid()}) == 1


@pytest.mark.parametrize(
    ("deed", "said", "of_kernel"),
    [
        (
            fail(DeviceFault("CUDA: an illegal memory access")),
            "CUDA: an illegal memory access",
            True,
        ),
        (lambda _: crash(), "the measuring process ended (exit code -11)", True),
        (lambda _: os._exit(3), "the measuring process ended (exit code 3)", True),
        # from outside: the end of a time slot, or of memory, says nothing of the kernel
        (
            lambda _: os.kill(os.getpid(), signal.SIGTERM),
            "the measuring process ended (exit code -15)",
            False,
        ),
        (
            lambda _: os.kill(os.getpid(), signal.SIGKILL),
            "the measuring process ended (exit code -9)",
            False,
        ),
    ],
)
def test_a_fault_costs_its_own_item_and_a_fresh_process_does_the_rest(
    deed: Callable, said: str, of_kernel: bool
) -> None:
    found = results(doing(two=deed))
    assert found.pop("two") == Failure(said, of_kernel=of_kernel)
    assert [result[1] for result in found.values()] == ["one", "three", "four"]
    assert found["three"][0] == found["four"][0] != found["one"][0]


def test_a_hang_is_ended_and_waiting_for_the_gpu_is_none() -> None:
    @contextlib.contextmanager
    def opened(watch: Watch) -> Iterator[Callable[[str], str]]:
        def task(item: str) -> str:
            if item == "two":
                time.sleep(1.0)  # as one that waits for the GPU
            with watch.holding():
                if item == "three":
                    time.sleep(600)
            return item

        yield task

    found = dict(work_through(ITEMS, opened, limit_s=0.5))
    reason = "the GPU did not finish within 0 s: the kernel hangs"
    assert found.pop("three") == Failure(reason, of_kernel=True)
    assert found == {item: item for item in ("one", "two", "four")}


def test_an_error_of_an_item_is_reported_and_the_process_goes_on() -> None:
    found = results(doing(two=fail(UserError("GPU out of memory"))))
    assert found["two"] == Failure("GPU out of memory", of_kernel=False)
    assert found["one"][0] == found["three"][0]


def test_what_cannot_begin_or_end_is_an_error_and_a_fault_of_this_program_has_its_traceback() -> (
    None
):
    @contextlib.contextmanager
    def never(watch: Watch) -> Iterator[Callable]:
        raise UserError("no GPU")
        yield

    with pytest.raises(UserError, match=r"^no GPU$"):
        results(never)

    @contextlib.contextmanager
    def ends_badly(watch: Watch) -> Iterator[Callable]:
        yield lambda item: item
        raise UserError("the clocks cannot be reset")

    with pytest.raises(UserError, match=r"^the clocks cannot be reset$"):
        results(ends_badly)
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*ZeroDivisionError"):
        results(doing(two=lambda _: 1 / 0))


def test_who_stops_listening_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "END_S", 0.5)
    pid, _ = next(iter(work_through(ITEMS, doing(two=lambda _: time.sleep(600)))))[1]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
