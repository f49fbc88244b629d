"""Dispatchers: entries of the catalogue that run each problem with one of several kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts import UserError
from contracts.dtypes import Types
from contracts.files import digest
from kernels import cost, tile_choice
from kernels.entries import Baseline, Variant
from kernels.problem import Layout, Problem


@dataclass(frozen=True)
class Choice:
    """One of a dispatcher's kernels, and the smallest m, n, k from which it is taken."""

    variant: Variant
    at_least: Mapping[str, int]

    def suits(self, problem: Problem, addresses: Mapping[str, int] | None) -> bool:
        """Return whether the sizes are reached and the kernel takes the problem."""
        reached = all(getattr(problem, axis) >= size for axis, size in self.at_least.items())
        return reached and self.variant.unsupported_reason(problem, addresses) is None

    def __str__(self) -> str:
        sizes = ", ".join(f"{axis} >= {value}" for axis, value in self.at_least.items())
        return self.variant.name + (f" for {sizes}" if sizes else "")


@dataclass(frozen=True)
class Dispatcher:
    """Runs each problem with one of several kernels: the first of its choices that suits or, where
    it is `predicted`, the one whose predicted time is shortest (`kernels.cost`).

    any_tile: where it is measured, the likeliest tiles (`kernels.tile_choice`) are candidates, too.
    They are compiled when a problem is new.
    """

    name: str
    choices: tuple[Choice, ...]
    builds_on: str | None
    idea: str
    origin: Mapping[str, str] | None
    predicted: bool
    any_tile: bool = False

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kernels that it may run, each once."""
        return tuple({choice.variant.name: choice.variant for choice in self.choices}.values())

    @property
    def family(self) -> str:
        """The family of its kernels."""
        return self.variants[0].family

    @property
    def label(self) -> str:
        """Short name for figures."""
        return self.name.removeprefix(f"{self.family}_")

    @property
    def tensor_cores(self) -> bool:
        """Whether its kernels do their arithmetic on them."""
        return any(variant.tensor_cores for variant in self.variants)

    @property
    def types(self) -> Types:
        """The types of its kernels, which share them."""
        return self.variants[0].types

    @property
    def dtype(self) -> str:
        """The name of its types."""
        return self.types.name

    @property
    def narrowing(self) -> str:
        """The narrowing of its kernels (see `Variant`)."""
        return self.variants[0].narrowing

    @property
    def b_layout(self) -> Layout:
        """The layout of B of its kernels; they share one."""
        return self.variants[0].b_layout

    @property
    def baseline(self) -> str:
        """The baseline of its kernels; they share one."""
        return self.variants[0].baseline

    @property
    def arch(self) -> int:
        """The highest compute capability that one of its kernels needs, times ten."""
        return max(variant.arch for variant in self.variants)

    def unsupported(self, arch: str) -> str | None:
        """Return why one of its kernels cannot be built for `arch`; None where all can."""
        return next(filter(None, (variant.unsupported(arch) for variant in self.variants)), None)

    def pick(self, problem: Problem, addresses: Mapping[str, int] | None = None) -> Variant:
        """Return the kernel that runs `problem` with matrices at `addresses` (bytes; keys A, B, C).

        Raises `UserError` where none does (see `unsupported_reason`).
        """
        return self.candidates(problem, addresses)[0]

    def candidates(
        self, problem: Problem, addresses: Mapping[str, int] | None = None
    ) -> list[Variant]:
        """Return the kernels that take `problem`, in the order in which they are chosen.

        Raises as `pick` does.
        """
        suiting = [choice.variant for choice in self.choices if choice.suits(problem, addresses)]
        if not suiting:
            raise UserError(self.unsupported_reason(problem, addresses))
        return cost.fastest_first(suiting, problem) if self.predicted else suiting

    def unsupported_reason(
        self, problem: Problem, addresses: Mapping[str, int] | None = None
    ) -> str | None:
        """Return why no choice takes this problem: the last one's reason. None where one does."""
        reason = problem.unsupported_reason()
        if reason is None and not any(choice.suits(problem, addresses) for choice in self.choices):
            last = self.choices[-1]
            reason = (
                last.variant.unsupported_reason(problem, addresses) or f"its last choice is {last}"
            )
        return f"{self.name} cannot take this problem: {reason}" if reason else None

    @property
    def requires(self) -> str:
        """What it asks of a problem, for people: what the last choice does, which the others fall
        back to.
        """
        return self.choices[-1].variant.requires

    @property
    def source_hash(self) -> str:
        """Changes with its choices and with the constants of predictions; not with the sources of
        its kernels.
        """
        constants = [cost.constants(self.variants)] if self.predicted else []
        constants += [tile_choice.constants()] if self.any_tile else []
        return digest(*map(str, self.choices), *constants)


Runnable = Variant | Dispatcher
Entry = Variant | Dispatcher | Baseline
