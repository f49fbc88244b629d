"""Loads the experiments: one YAML file each, next to this module, under contracts/declared.py and
the catalogue.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from contracts import UserError, choose, read_yaml
from contracts.declared import ExperimentFile
from kernels import catalogue
from kernels.catalogue import Catalogue
from kernels.problem import ProblemSpec

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Protocol:
    """How a process times one variant on one problem: the fields of `Experiment` of these names;
    times in seconds.

    flush_l2: overwrite L2 before each sample. warmup_s: back-to-back pairs before the first sample.
    window_s: the longest time of sampling, and samples the most of each kernel; it ends early once
    half of the 95% interval of the fraction is at most precision, a part of the fraction. isolated:
    each of the two also runs alone. power_s: the longest time over which power is averaged; 0: it
    is not read. processes: how many fresh processes measure a row.
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
        """Whether a measurement by this protocol serves where `other` is asked for."""
        return self == self.joined(other)

    def joined(self, other: Protocol) -> Protocol:
        """The protocol that serves where either is asked for; both flush, or neither does."""
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
        """Its name among those of the variant."""
        flushed = "" if self.protocol.flush_l2 else "-unflushed"
        process = f"-process{self.process}" if self.process else ""
        return f"{self.problem}-{self.data}-{self.clock_policy}{flushed}{process}"


@dataclass(frozen=True, kw_only=True)
class Experiment(Protocol):
    """What an experiment measures, and how."""

    name: str
    title: str
    question: str
    variants: tuple[str, ...]
    # that are timed: plain sizes, those named, of a grid, drawn at random
    problems: tuple[ProblemSpec, ...] = ()
    profiled: tuple[ProblemSpec, ...] = ()  # whose hardware counters are read
    swept: bool = False  # sizes were given as a range
    data: tuple[str, ...] = ("uniform",)
    by_name: bool = False  # no part of `all`

    @property
    def protocol(self) -> Protocol:
        """How it times."""
        return Protocol(**{name: getattr(self, name) for name in PROTOCOL})

    @property
    def kind(self) -> str | None:
        """What its timings are drawn as: lines over sizes, by kind of data, or bars; None where it
        only profiles.
        """
        if not self.problems:
            return None
        if any(problem != ProblemSpec.square(problem.n) for problem in self.problems):
            return "problems"
        return "sizes" if self.swept else "data_kinds" if len(self.data) > 1 else "ladder"


def load(
    name: str,
    sizes_step: int | None = None,
    chosen: list[str] | None = None,
    known: Catalogue | None = None,
) -> Experiment:
    """The experiment called `name`; `sizes_step` replaces the step of a swept size, `chosen` limits
    the variants.

    `known`: the catalogue; None: as it ships.

    Raises `UserError` naming the file, the key and what is accepted, also for a problem that a
    variant cannot take.
    """
    paths = {name: FOLDER / f"{name}.yaml" for name in names()}
    path = choose(paths, name, "experiment", "experiments/")
    data = {
        key: value
        for key, value in read_yaml(path, ExperimentFile).model_dump(exclude_unset=True).items()
        if value is not None
    }
    shown = path.relative_to(FOLDER.parent)
    sizes, grid, drawn = data.pop("sizes", []), data.pop("grid", None), data.pop("random", None)
    swept = isinstance(sizes, dict)
    if swept:
        if sizes["last"] < sizes["first"]:
            raise UserError(
                f"{shown}: sizes.last = {sizes['last']} is not allowed; allowed: at least {sizes['first']}"
            )
        sizes = range(sizes["first"], sizes["last"] + 1, sizes_step or sizes["step"])
    kinds = data.pop("data", list(Experiment.data))
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if swept and len(kinds) > 1:
        given = f"data = {', '.join(kinds)} over a range of sizes is not allowed"
        raise UserError(f"{shown}: {given}; allowed: one kind of data, or a list of sizes")
    try:
        problems = {
            "sizes": [ProblemSpec.square(size) for size in sizes],
            "problems": [ProblemSpec.parse(str(problem)) for problem in data.pop("problems", [])],
            "grid": [ProblemSpec(m, n, k) for n, k in grid["nk"] for m in grid["m"]]
            if grid
            else [],
            "random": [*draw(**drawn)] if drawn else [],
        }
        profiled = [ProblemSpec.parse(str(problem)) for problem in data.pop("profile", [])]
    except UserError as error:
        raise UserError(f"{shown}: {error}") from error
    timed = [problem for named in problems.values() for problem in named]
    if not timed and not profiled:
        raise UserError(
            f"{shown}: no sizes, problems, grid, random or profile is given; at least one is needed"
        )
    for key, named in (("problems", timed), ("profile", profiled)):
        if twice := next((problem for problem, times in Counter(named).items() if times > 1), None):
            raise UserError(
                f"{shown}: {key}: {twice} stands there twice; allowed: each problem once"
            )
    if scaled := next((problem for problem in profiled if problem.alpha != 1), None):
        raise UserError(
            f"{shown}: profile: {scaled} is not allowed; allowed: alpha = 1, on which no counter depends"
        )
    entries = known or catalogue.load()
    for variant in data["variants"]:
        entry = choose(entries, variant, "variant", shown)
        for key, named in {**problems, "profile": profiled}.items():
            for problem in named:
                if reason := entry.refusal(problem.of(entry.b_layout)):
                    raise UserError(f"{shown}: {key}: {reason}")
    variants = tuple(v for v in data.pop("variants") if chosen is None or v in chosen)
    return Experiment(
        name=name,
        variants=variants,
        problems=tuple(timed),
        profiled=tuple(profiled),
        swept=swept,
        data=kinds,
        **data,
    )


def draw(
    count: int, seed: int, log2: list[float] | Mapping[str, list[float]], multiple: int = 1
) -> Iterator[ProblemSpec]:
    """`count` different problems, the same ones for the same arguments: the logarithms of m, n and
    k are uniform.

    log2: the least and the greatest base-2 logarithm, of all three or by their names. multiple:
    what each is rounded to a multiple of, in the logarithm's range as far as there is one.
    """
    generator, drawn = random.Random(seed), set[ProblemSpec]()
    ranges = [log2[axis] if isinstance(log2, Mapping) else log2 for axis in "mnk"]
    for _ in range(100 * count):
        m, n, k = (
            max(round(2 ** generator.uniform(*sorted(ends)) / multiple), 1) * multiple
            for ends in ranges
        )
        problem = ProblemSpec(m, n, k)
        if problem not in drawn and len(drawn) < count:
            drawn.add(problem)
            yield problem
    if len(drawn) < count:
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
    """What these variants are measured for, problem by problem.

    A measurement serves all experiments that ask for it: each has the protocol that serves this one
    and all that are part of `all`.
    """
    entries = known or catalogue.load()
    others = [load(name, sizes_step, known=entries) for name in names() if name != experiment.name]
    found = []
    for problem in experiment.problems:
        for data in experiment.data:
            for variant in variants:
                protocol = experiment.protocol
                for other in others:
                    asks = (
                        variant in other.variants
                        and problem in other.problems
                        and data in other.data
                    )
                    if asks and not other.by_name and other.flush_l2 == experiment.flush_l2:
                        protocol = protocol.joined(other.protocol)
                for process in range(protocol.processes):
                    found.append(Item(variant, problem, data, clock_policy, protocol, process))
    return found


def names() -> list[str]:
    """All experiments, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
