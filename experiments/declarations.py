"""Loads the experiments: one YAML file each, next to this module, under contracts/declared.py and
the catalogue.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from contracts import UserError, choose, read_yaml
from contracts.declared import ExperimentFile
from kernels import catalogue
from kernels.catalogue import Catalogue, Entry
from kernels.problem import ProblemSpec

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Protocol:
    """How a process times one variant on one problem; times are in seconds.

    flush_l2: overwrite L2 before each sample. warmup_s: back-to-back pairs before the first sample.
    window_s and samples: the longest time of sampling and the most samples of each kernel. A window
    ends early once half of the 95% interval of the fraction is at most `precision`, relative to the
    fraction. isolated: each of the two also runs alone. power_s: the longest time over which power
    is averaged; 0: it is not read. processes: how many fresh processes measure a row.
    """

    flush_l2: bool = True
    warmup_s: float = 0.06
    window_s: float = 0.12
    samples: int = 40
    precision: float = 0.0033
    isolated: bool = True
    power_s: float = 0.0
    processes: int = 5

    def covers(self, other: Protocol) -> bool:
        """Return whether a measurement by this protocol serves where `other` is asked for."""
        return self == self.joined(other)

    def joined(self, other: Protocol) -> Protocol:
        """Return the protocol that serves where either is asked for; both flush, or neither does."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in PROTOCOL}
        return Protocol(
            **{name: min(pair) if name == "precision" else max(pair) for name, pair in both.items()}
        )


PROTOCOL = tuple(field.name for field in fields(Protocol))


@dataclass(frozen=True)
class Item:
    """One measurement: a variant on a problem with data of one kind, in a clock policy, in one of
    several processes.
    """

    variant: str
    problem: ProblemSpec
    data: str
    clock_policy: str
    protocol: Protocol
    process: int = 0

    @property
    def stem(self) -> str:
        """Return its name among those of the variant."""
        flushed = "" if self.protocol.flush_l2 else "-unflushed"
        process = f"-process{self.process}" if self.process else ""
        return f"{self.problem}-{self.data}-{self.clock_policy}{flushed}{process}"


@dataclass(frozen=True, kw_only=True)
class Experiment(Protocol):
    """What an experiment measures, and how.

    problems: those that are timed: plain sizes, named ones, those of a grid and those drawn at
    random. profiled: those whose hardware counters are read. by_name: `all` leaves it out.
    """

    name: str
    title: str
    question: str
    variants: tuple[str, ...]
    problems: tuple[ProblemSpec, ...] = ()
    profiled: tuple[ProblemSpec, ...] = ()
    data: tuple[str, ...] = ("uniform",)
    by_name: bool = False

    @property
    def protocol(self) -> Protocol:
        """Return how it times."""
        return Protocol(**{name: getattr(self, name) for name in PROTOCOL})

    @property
    def any_shape(self) -> bool:
        """Return whether a timed problem is other than m = n = k with alpha 1 and beta 0."""
        return any(problem != ProblemSpec.square(problem.n) for problem in self.problems)


def load(
    name: str,
    sizes_step: int | None = None,
    chosen: list[str] | None = None,
    known: Catalogue | None = None,
) -> Experiment:
    """Return the experiment called `name`.

    :param sizes_step: replaces the step of a range of sizes.
    :param chosen: limits the variants.
    :param known: the catalogue; None: as it ships.

    Raises `UserError` naming the file, the key and what is accepted, also for a problem that a
    variant cannot take.
    """
    paths = {name: FOLDER / f"{name}.yaml" for name in names()}
    path = choose(paths, name, "experiment", "experiments/")
    file = path.relative_to(FOLDER.parent)
    data = read_yaml(path, ExperimentFile).model_dump(exclude_unset=True, exclude_none=True)
    entries = known or catalogue.load()
    takers = [choose(entries, variant, "variant", file) for variant in data["variants"]]
    kinds = data.pop("data", list(Experiment.data))
    data["data"] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    try:
        if isinstance(data.get("sizes"), dict) and len(data["data"]) > 1:
            raise UserError(
                f"data = {', '.join(data['data'])} over a range of sizes is not allowed; "
                "allowed: one kind of data, or a list of sizes"
            )
        timed = _timed_problems(data, sizes_step)
        profiled = _parsed(data.pop("profile", []))
        _check_problems(timed, profiled, takers)
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    data["variants"] = tuple(v for v in data["variants"] if chosen is None or v in chosen)
    problems = tuple(problem for named in timed.values() for problem in named)
    return Experiment(name=name, problems=problems, profiled=tuple(profiled), **data)


def _parsed(texts: Iterable[object]) -> list[ProblemSpec]:
    return [ProblemSpec.parse(str(text)) for text in texts]


def _timed_problems(data: dict[str, Any], sizes_step: int | None) -> dict[str, list[ProblemSpec]]:
    """Take the keys that name problems from an experiment's file; return the problems by key."""
    sizes, grid, drawn = data.pop("sizes", []), data.pop("grid", None), data.pop("random", None)
    if isinstance(sizes, dict):
        first, last = sizes["first"], sizes["last"]
        if last < first:
            raise UserError(f"sizes.last = {last} is not allowed; allowed: at least {first}")
        sizes = range(first, last + 1, sizes_step or sizes["step"])
    pairs = grid["nk"] if grid else []
    return {
        "sizes": [ProblemSpec.square(size) for size in sizes],
        "problems": _parsed(data.pop("problems", [])),
        "grid": [ProblemSpec(m, n, k) for n, k in pairs for m in grid["m"]],
        "random": list(draw(**drawn)) if drawn else [],
    }


def _check_problems(
    timed: dict[str, list[ProblemSpec]], profiled: list[ProblemSpec], takers: list[Entry]
) -> None:
    """Raise `UserError` for no problem, one that is named twice, and one that an entry refuses."""
    every = {"problems": [p for named in timed.values() for p in named], "profile": profiled}
    if not any(every.values()):
        raise UserError(
            "no sizes, problems, grid, random or profile is given; at least one is needed"
        )
    for key, named in every.items():
        if twice := next((p for p, times in Counter(named).items() if times > 1), None):
            raise UserError(f"{key}: {twice} stands there twice; allowed: each problem once")
    if scaled := next((problem for problem in profiled if problem.alpha != 1), None):
        raise UserError(
            f"profile: {scaled} is not allowed; allowed: alpha = 1, on which no counter depends"
        )
    for entry, (key, named) in product(takers, {**timed, "profile": profiled}.items()):
        for problem in named:
            if reason := entry.unsupported_reason(problem.of(entry.b_layout)):
                raise UserError(f"{key}: {reason}")


def draw(
    count: int, seed: int, log2: list[float] | Mapping[str, list[float]], multiple: int = 1
) -> Iterator[ProblemSpec]:
    """Yield `count` different problems, always the same ones for the same arguments.

    The logarithms of m, n and k are uniform. log2: the smallest and the largest base-2 logarithm,
    of all three or by their names. multiple: each size is rounded to a multiple of it.
    """
    generator, drawn = random.Random(seed), set[ProblemSpec]()
    ranges = [log2[axis] if isinstance(log2, Mapping) else log2 for axis in "mnk"]
    for _ in range(100 * count):
        sizes = (2 ** generator.uniform(*sorted(ends)) for ends in ranges)
        m, n, k = (max(round(size / multiple), 1) * multiple for size in sizes)
        problem = ProblemSpec(m, n, k)
        if problem not in drawn:
            drawn.add(problem)
            yield problem
        if len(drawn) == count:
            return
    raise UserError(
        f"random.count = {count} is not allowed; allowed: at most {len(drawn)}, for there are no more"
    )


def items(
    experiment: Experiment,
    variants: Iterable[str],
    clock_policy: str,
    sizes_step: int | None = None,
    known: Catalogue | None = None,
) -> list[Item]:
    """Return what these variants are measured for, problem by problem.

    A measurement serves all experiments that ask for it: its protocol is the one that serves this
    experiment and all that are part of `all`.
    """
    entries = known or catalogue.load()
    others = [load(name, sizes_step, known=entries) for name in names() if name != experiment.name]
    others = [e for e in others if not e.by_name and e.flush_l2 == experiment.flush_l2]
    measured = []
    for problem, data, variant in product(experiment.problems, experiment.data, variants):
        protocol = experiment.protocol
        for other in others:
            if variant in other.variants and problem in other.problems and data in other.data:
                protocol = protocol.joined(other.protocol)
        for process in range(protocol.processes):
            measured.append(Item(variant, problem, data, clock_policy, protocol, process))
    return measured


def names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
