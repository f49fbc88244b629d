"""Loads the experiments: one YAML file each, beside this module, checked against the schema and the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from contracts import UserError, choose, read_yaml
from kernels import catalogue
from kernels.catalogue import Problem

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Protocol:
    """How one variant is timed on one problem: the fields of `Experiment` of these names."""

    flush_l2: bool
    warmup_s: float
    window_s: float
    samples: int
    least_samples: int
    precision: float
    power_s: float
    power_precision: float
    worklog_budget_s: float

    def covers(self, other: Protocol) -> bool:
        """Whether a measurement by this protocol serves where `other` is asked for."""
        return self == self.joined(other)

    def joined(self, other: Protocol) -> Protocol:
        """The protocol that serves where either is asked for; both flush, or neither does."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in PROTOCOL}
        return Protocol(**{name: min(pair) if "precision" in name else max(pair) for name, pair in both.items()})


PROTOCOL = tuple(field.name for field in fields(Protocol))


@dataclass(frozen=True)
class Item:
    """One measurement: a variant on square matrices, m = n = k, in a clock regime."""

    variant: str
    n: int
    data: str
    regime: str
    protocol: Protocol

    @property
    def stem(self) -> str:
        """Its name among those of the variant."""
        flushed = "" if self.protocol.flush_l2 else "-unflushed"
        return f"{self.n}x{self.n}x{self.n}-{self.data}-{self.regime}{flushed}"


@dataclass(frozen=True)
class Experiment:
    """What an experiment measures; times in seconds."""

    name: str
    title: str
    question: str
    variants: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    swept: bool = False  # sizes were given as a range
    data: tuple[str, ...] = ("uniform",)
    flush_l2: bool = True
    warmup_s: float = 0.5
    window_s: float = 1.0
    samples: int = 300
    least_samples: int = 10
    precision: float = 0.0015
    power_s: float = 0.5
    power_precision: float = 0.01
    worklog_budget_s: float = 0.0
    profile_size: int | None = None
    beta: float = 0.0  # of the problem that is profiled
    by_name: bool = False  # no part of `all`
    every_lease: bool = False  # measured anew on each card that a run goes on with

    @property
    def protocol(self) -> Protocol:
        """How it times."""
        return Protocol(**{name: getattr(self, name) for name in PROTOCOL})

    @property
    def kind(self) -> str | None:
        """What its timings are drawn as: lines over sizes, by kind of data, or bars; None where it only profiles."""
        if not self.sizes:
            return None
        return "sizes" if self.swept else "data_kinds" if len(self.data) > 1 else "ladder"


def load(name: str, sizes_step: int | None = None, chosen: list[str] | None = None) -> Experiment:
    """The experiment called `name`; `sizes_step` replaces the step of a swept size, `chosen` limits the variants.

    Raises `UserError` naming the file, the key and what is accepted, also for a size that a variant cannot take.
    """
    paths = {name: FOLDER / f"{name}.yaml" for name in names()}
    path = choose(paths, name, "experiment", "experiments/")
    data = read_yaml(path, "experiment")
    shown = path.relative_to(FOLDER.parent)
    sizes = data.pop("sizes", [])
    swept = isinstance(sizes, dict)
    if swept:
        if sizes["last"] < sizes["first"]:
            raise UserError(f"{shown}: sizes.last = {sizes['last']} is not allowed; allowed: at least {sizes['first']}")
        sizes = range(sizes["first"], sizes["last"] + 1, sizes_step or sizes["step"])
    kinds = data.pop("data", list(Experiment.data))
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if swept and len(kinds) > 1:
        told = f"data = {', '.join(kinds)} over a range of sizes is not allowed"
        raise UserError(f"{shown}: {told}; allowed: one kind of data, or a list of sizes")
    if not sizes and "profile_size" not in data:
        raise UserError(f"{shown}: neither sizes nor profile_size is given; at least one is needed")
    if sizes and data.get("beta"):
        raise UserError(f"{shown}: beta = {data['beta']:g} beside sizes is not allowed; allowed: profile_size alone")
    for variant in data["variants"]:
        entry = choose(catalogue.load(), variant, "variant", shown)
        profiled = [data["profile_size"]] if "profile_size" in data else []
        for key, size in [*(("sizes", size) for size in sizes), *(("profile_size", size) for size in profiled)]:
            if reason := entry.refusal(Problem.square(size, entry.b_layout)):
                raise UserError(f"{shown}: {key}: {reason}")
    variants = [v for v in data.pop("variants") if chosen is None or v in chosen]
    return Experiment(name=name, variants=tuple(variants), sizes=tuple(sizes), swept=swept, data=kinds, **data)


def items(experiment: Experiment, variants: Iterable[str], regime: str, sizes_step: int | None = None) -> list[Item]:
    """What these variants are measured for, problem by problem.

    A measurement serves all experiments that ask for it: each has the protocol that serves this one and all that are
    part of `all`.
    """
    others = [load(name, sizes_step) for name in names() if name != experiment.name]
    found = []
    for n in experiment.sizes:
        for data in experiment.data:
            for variant in variants:
                protocol = experiment.protocol
                for other in others:
                    asks = not other.by_name and variant in other.variants and n in other.sizes and data in other.data
                    if asks and other.flush_l2 == experiment.flush_l2:
                        protocol = protocol.joined(other.protocol)
                found.append(Item(variant, n, data, regime, protocol))
    return found


def names() -> list[str]:
    """All experiments, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
