"""Items measured in a child process: what a kernel that faults, dies or hangs costs."""

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

Opened = Callable[[Watch], contextlib.AbstractContextManager]
ITEMS = ["one", "two", "three", "four"]


def doing(**deeds: Callable[[Watch], object]) -> Opened:
    """A worker that answers each item with its process and the item; some do a deed before."""

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


def crash(_: Watch) -> None:
    """Die as a confused driver may; Python's own report is not printed."""
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def killed(number: int) -> Callable[[Watch], object]:
    return lambda _: os.kill(os.getpid(), number)


def results(opened: Opened) -> dict[str, tuple[int, str] | Failure]:
    return dict(work_through(ITEMS, opened))


def test_all_in_one_process_which_is_not_this_one() -> None:
    outcomes = results(doing())
    assert [result[1] for result in outcomes.values()] == ITEMS
    assert len({result[0] for result in outcomes.values()} - {os.getpid()}) == 1


@pytest.mark.parametrize(
    ("deed", "reason", "of_kernel"),
    [
        (fail(DeviceFault("an illegal memory access")), "an illegal memory access", True),
        (crash, "the measuring process ended (exit code -11)", True),
        (lambda _: os._exit(3), "the measuring process ended (exit code 3)", True),
        # The end of a time slot, or of memory, says nothing of the kernel.
        (killed(signal.SIGTERM), "the measuring process ended (exit code -15)", False),
        (killed(signal.SIGKILL), "the measuring process ended (exit code -9)", False),
    ],
)
def test_a_fault_costs_its_own_item_and_a_fresh_process_does_the_rest(
    deed: Callable, reason: str, of_kernel: bool
) -> None:
    outcomes = results(doing(two=deed))
    assert outcomes.pop("two") == Failure(reason, of_kernel=of_kernel)
    assert [result[1] for result in outcomes.values()] == ["one", "three", "four"]
    assert outcomes["three"][0] == outcomes["four"][0] != outcomes["one"][0]


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

    outcomes = dict(work_through(ITEMS, opened, limit_s=0.5))
    reason = "the GPU did not finish within 0 s: the kernel hangs"
    assert outcomes.pop("three") == Failure(reason, of_kernel=True)
    assert outcomes == {item: item for item in ("one", "two", "four")}


def test_an_error_of_an_item_is_reported_and_the_process_goes_on() -> None:
    outcomes = results(doing(two=fail(UserError("GPU out of memory"))))
    assert outcomes["two"] == Failure("GPU out of memory", of_kernel=False)
    assert outcomes["one"][0] == outcomes["three"][0]


@contextlib.contextmanager
def never_begins(watch: Watch) -> Iterator[Callable]:
    raise UserError("no GPU")
    yield


@contextlib.contextmanager
def ends_badly(watch: Watch) -> Iterator[Callable]:
    yield lambda item: item
    raise UserError("the clocks cannot be reset")


@pytest.mark.parametrize(
    ("opened", "kind", "message"),
    [
        (never_begins, UserError, r"^no GPU$"),
        (ends_badly, UserError, r"^the clocks cannot be reset$"),
        (doing(two=lambda _: 1 / 0), RuntimeError, r"(?s)Traceback.*ZeroDivisionError"),
    ],
)
def test_what_cannot_begin_or_end_is_an_error_and_a_fault_of_this_program_has_its_traceback(
    opened: Opened, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        results(opened)


def test_who_stops_listening_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "END_S", 0.5)
    pid, _ = next(iter(work_through(ITEMS, doing(two=lambda _: time.sleep(600)))))[1]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
