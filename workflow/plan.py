"""What a run does, worked out from configuration, the machine and what is on disk: a value, with no
Snakemake in it.

`plan(config, device, inventory, targets)` reads the project's declarations (catalogue, experiments,
the list of tables), and otherwise nothing but its arguments. The rules read the `Plan` and
decide nothing.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contracts import UserError, choose, read_json, validated
from contracts.declared import Config
from contracts.rows import TABLES, Provenance, Table
from experiments import declarations
from experiments.declarations import Experiment
from kernels import catalogue
from kernels.catalogue import Catalogue, Dispatcher
from kernels.problem import ProblemSpec

CONFIG = "config.yaml"
# These targets draw what is there: nothing is measured, built or emulated.
DRAWING = ("paper", "explorer", "site", "claims", "readme")
# Such files are drawn, too, except pictures of what the emulator does today.
DRAWN = re.compile(r"results/((figures|tables|report)/.+|[a-z]+\.(pdf|html))")
PICTURED = re.compile(r"results/figures/banks_.+")
COMPARE = "compare"
COMPARED_PROBLEM = ProblemSpec.square(4096)
# One job builds or emulates so many kernels: starting a process takes as long as half a kernel.
BATCH = 6
# One job checks or times so many variants.
PART = 8
# One job times about so many windows, so that several GPUs end at about the same time.
WINDOWS = 120

# A folder's name leaves out these words of a GPU's name: maker, brand, size and kind of memory.
UNNAMED = re.compile(r"nvidia|geforce|\d+gb|hbm\d*e?")


@dataclass(frozen=True)
class Device:
    """The compilers and, where there is one, the GPU of this machine.

    toolchain: the content of toolchain.json. missing: the reason for each library that is measured
    and is not here.
    """

    toolchain: Mapping[str, str | None]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpu(self) -> str | None:
        """The GPU's name; None where there is none."""
        return self.toolchain["gpu"]

    @property
    def arch(self) -> str:
        """Architecture to build for: the GPU's, else the configured one."""
        return self.toolchain["arch"] or ""

    @property
    def machine(self) -> str:
        """Folder for its results: "h100" for "NVIDIA H100 80GB HBM3", "no-gpu" where there is
        none.
        """
        if not self.gpu:
            return "no-gpu"
        words = re.findall(r"[a-z0-9]+", self.gpu.lower())
        return "-".join([word for word in words if not UNNAMED.fullmatch(word)] or words)


@dataclass(frozen=True)
class Inventory:
    """The files below results/ and data/, relative to the project."""

    files: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> Inventory:
        """What lies below `root` now; only looked at, not read."""
        paths = (path for name in ("results", "data") for path in (root / name).rglob("*"))
        return cls(frozenset(path.relative_to(root).as_posix() for path in paths if path.is_file()))

    def has(self, *paths: str) -> bool:
        """Whether all of these files are there."""
        return self.files.issuperset(paths)

    def folders_with(self, name: str) -> list[str]:
        """Folders data/X that hold a file of this name, by name."""
        paths = (Path(path) for path in self.files if path.startswith("data/"))
        return sorted(
            path.parent.as_posix() for path in paths if path.name == name and len(path.parts) == 3
        )


@dataclass(frozen=True)
class Plan:
    """Everything that the rules read.

    drawing: nothing is built or emulated. archived: the tables of measurements are an archive's.
    source: the folder of these tables, results/MACHINE or data/ARCHIVE. planned: experiments that
    are measured. variants: entries of the catalogue, as far as the configuration limits them. unsupported:
    the reason for each entry that needs another architecture or a library. made: recorded tables
    that the run makes for targets of their own. compared: the pair of `snakemake compare`.
    counters_required: counters are all that was asked for, so that the run fails without them.
    archives: folders data/X with provenance, beginning with the one that stands in.
    """

    config: Mapping[str, Any]
    device: Device
    inventory: Inventory
    machine: str
    measuring: bool
    drawing: bool
    archived: bool
    source: str
    experiments: Mapping[str, Experiment]
    planned: tuple[str, ...]
    variants: tuple[str, ...]
    unsupported: Mapping[str, str]
    made: tuple[str, ...]
    clock_policies: tuple[str, ...]
    catalogue: Catalogue
    compared: Experiment | None
    counters_required: bool
    archives: tuple[str, ...]

    @property
    def results(self) -> str:
        """Folder of this machine's results."""
        return f"results/{self.machine}"

    @property
    def build(self) -> str:
        """Folder of the cubins."""
        return f"results/build/{self.device.arch}"

    # ---- what is built and emulated --------------------------------------------------------------

    @functools.cached_property
    def runnable(self) -> tuple[str, ...]:
        """Kernels of ours, and dispatchers over them."""
        return tuple(name for name in self.variants if name in self.catalogue.runnable)

    @functools.cached_property
    def named(self) -> tuple[str, ...]:
        """The kernels and dispatchers that this run's experiments name, in the catalogue's
        order.
        """
        experiments = [*self.in_scope(""), *([self.compared] if self.compared else [])]
        names = {name for experiment in experiments for name in experiment.variants}
        return tuple(name for name in self.runnable if name in names)

    @functools.cached_property
    def emulated(self) -> tuple[str, ...]:
        """Those that run on the emulator.

        A dispatcher does where experiments name all of its kernels.
        """
        kernels = {
            name: {variant.name for variant in self.catalogue.runnable[name].variants}
            for name in self.named
        }
        return tuple(name for name in self.named if kernels[name] <= {*self.named})

    @functools.cached_property
    def kernels(self) -> tuple[str, ...]:
        """What is built for experiments: the kernels that they name and, for a GPU, those that
        dispatchers pick.
        """
        names = self.named if self.measuring else self.emulated
        return tuple(dict.fromkeys(kernel for name in names for kernel in self.kernels_of(name)))

    def kernels_in(self, scope: str) -> tuple[str, ...]:
        """What is built for a folder of tables: all of `kernels`, or those that one experiment
        needs.
        """
        names = [name for experiment in self.in_scope(scope) for name in experiment.variants]
        needed = {kernel for name in names for kernel in self.kernels_of(name)}
        return tuple(name for name in self.kernels if not scope or name in needed)

    def kernels_of(self, name: str) -> tuple[str, ...]:
        """The kernels that running an entry needs; none for a library."""
        entry = None if name in self.unsupported else self.catalogue.runnable.get(name)
        return tuple(kernel.name for kernel in entry.variants) if entry else ()

    @functools.cached_property
    def builds(self) -> Mapping[str, tuple[str, ...]]:
        """Every kernel, also those of dispatchers alone, in the batches that one job builds:
        EXPERIMENT-NUMBER or DISPATCHER-NUMBER to names."""
        return dict(
            _batches(
                [kernel for name in self.runnable for kernel in self.kernels_of(name)], self._groups
            )
        )

    @functools.cached_property
    def emulations(self) -> Mapping[str, tuple[str, ...]]:
        """What runs on the emulator, in the batches that one job emulates."""
        return dict(_batches(self.emulated, self._groups))

    @functools.cached_property
    def _groups(self) -> Mapping[str, tuple[str, ...]]:
        """Names that belong together; a name belongs to the first group that has it."""
        largest_first = sorted(
            self.everything.values(), key=lambda experiment: -len(experiment.variants)
        )
        dispatchers = [name for name in self.runnable if name not in self.catalogue.kernels]
        groups = {experiment.name: experiment.variants for experiment in largest_first}
        return (
            groups
            | {name: self.kernels_of(name) for name in dispatchers}
            | {"others": self.runnable}
        )

    def predicted(self, variant: str) -> tuple[ProblemSpec, ...]:
        """The problems whose counters are wanted of a variant, and so predicted; C is not read in a
        prediction.
        """
        asked = (e for e in self.everything.values() if not e.by_name or e.name in self.planned)
        wanted = (p for e in asked if variant in e.variants for p in e.profiled)
        return tuple(dict.fromkeys(replace(problem, beta=ProblemSpec.beta) for problem in wanted))

    # ---- what is measured ------------------------------------------------------------------------

    @functools.cached_property
    def everything(self) -> Mapping[str, Experiment]:
        """The experiments, and the pair to compare as one that only profiles."""
        return {**self.experiments, **({COMPARE: self.compared} if self.compared else {})}

    def in_scope(self, scope: str) -> tuple[Experiment, ...]:
        """The experiments of a folder of tables: those planned in results/MACHINE, one in
        results/MACHINE/only/NAME.
        """
        names = [scope.rpartition("/")[2]] if scope else self.planned
        return tuple(self.everything[name] for name in names)

    def emulated_in(self, scope: str) -> tuple[str, ...]:
        """What the emulator runs of a scope, each once."""
        names = dict.fromkeys(
            name for experiment in self.in_scope(scope) for name in experiment.variants
        )
        return tuple(name for name in names if name in self.emulated)

    def folder_of(self, experiment: str) -> str:
        """The folder whose tables an experiment's own figures are drawn from."""
        alone = self.measuring and experiment in (*self.planned, COMPARE)
        return f"{self.results}/only/{experiment}" if alone else self.source

    def parts(self, experiment: str) -> Mapping[str, tuple[str, ...]]:
        """The variants of an experiment as jobs take them, by the names of the parts: some of one
        dtype each.
        """
        by_dtype: dict[str, list[str]] = {}
        for name in self.everything[experiment].variants:
            by_dtype.setdefault(self.catalogue.find(name).dtype, []).append(name)
        return {
            f"{dtype}-{number}": tuple(names)
            for dtype, all_names in by_dtype.items()
            for number, names in enumerate(_chunks(all_names, PART), start=1)
        }

    def slices(self, experiment: str, part: str) -> list[str]:
        """The problems of a part as jobs time them: 2of3 is every third from the second on, so that
        each job has small ones and large ones."""
        asked = self.everything[experiment]
        windows = (
            len(self.parts(experiment)[part])
            * len(asked.problems)
            * len(asked.data)
            * asked.processes
        )
        count = min(-(-windows // WINDOWS), len(asked.problems))
        return [f"{number}of{count}" for number in range(1, count + 1)]

    def timed(self, scope: str) -> list[str]:
        """What is timed in a scope, as EXPERIMENT/PART-SLICE-CLOCK_POLICY."""
        return [
            f"{experiment.name}/{part}-{slice_}-{clock_policy}"
            for experiment in self.in_scope(scope)
            if experiment.problems
            for part in self.parts(experiment.name)
            for slice_ in self.slices(experiment.name, part)
            for clock_policy in self.clock_policies
        ]

    def checked(self, scope: str) -> list[str]:
        """The parts whose checks a scope's table holds, as EXPERIMENT/PART."""
        names = [experiment.name for experiment in self.in_scope(scope)]
        return [
            f"{name}/{part}"
            for name in names
            for part in self.parts(name)
            if self.runnable_of(name, part)
        ]

    def runnable_of(self, experiment: str, part: str) -> tuple[str, ...]:
        """The kernels and dispatchers of a part: it may be of libraries alone."""
        return tuple(name for name in self.parts(experiment)[part] if name in self.runnable)

    def tiled(self, experiment: str, part: str) -> list[str]:
        """The dispatchers of a part that run tiles which are compiled for a problem."""
        entries = {name: self.catalogue.find(name) for name in self.parts(experiment)[part]}
        return [
            name
            for name, entry in entries.items()
            if isinstance(entry, Dispatcher) and entry.any_tile
        ]

    @property
    def checking(self) -> bool:
        """Whether the run ends with all checks passed: on the GPU, or, with an archive, on the
        emulator.
        """
        return self.measuring or self.archived

    # ---- the recorded tables ---------------------------------------------------------------------

    @functools.cached_property
    def tables(self) -> Mapping[str, str]:
        """The source of each recorded table that is there or is made: name to path."""
        folders = {table: self._folder_of(table) for table in TABLES.values()}
        return {table.name: f"{folder}/{table.file}" for table, folder in folders.items() if folder}

    def _folder_of(self, table: Table) -> str | None:
        own, archived = (
            self.inventory.has(f"{folder}/{table.file}") for folder in (self.results, self.source)
        )
        if table.name == "emulated_checks" and not self.archived:
            # The GPU's checks hold the emulator's, too.
            return None
        if table.parts in ("build", "emulate"):
            return self.results if own or not self.drawing else self.source if archived else None
        if table.name in self.made or (own and table.without_gpu):
            return self.results
        return self.source if archived or (self.measuring and table.target == "all") else None

    @property
    def to_archive(self) -> list[str]:
        """The tables that an archive of this run takes; none where an archive stands in for it."""
        wanted = (t for t in TABLES.values() if t.archive != "never")
        made = (
            t.name
            for t in wanted
            if t.archive == "always" or t.target == "all" or t.name in self.made
        )
        return [] if self.archived else [self.tables[name] for name in made if name in self.tables]

    def summary(self) -> list[str]:
        """What to open after `all`, what was measured and what archived, and what was left out."""
        path = Path(self.source, "provenance.json")
        lines = [
            "",
            "Open results/explorer.html (every rung and step), results/paper.pdf and results/supplement.pdf.",
        ]
        if path.is_file():
            origin = read_json(path, Provenance)
            where = (
                f"archived in {self.source}"
                if self.archived
                else f"on this machine, in {self.source}"
            )
            lines.append(f"Measured on {origin.gpu}, {origin.date[:10]}, {where}.")
        lines.append(
            f"Made here: {len(self.kernels)} kernels built, {len(self.emulated)} kernels and dispatchers emulated."
        )
        return lines + [f"Left out: {reason}." for reason in self.unsupported.values()]


def _chunks(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """The names in lists of at most `size`."""
    rest = iter(names)
    return iter(lambda: list(itertools.islice(rest, size)), [])


def _batches(
    names: Iterable[str], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each of `names` in one batch of at most `BATCH`, with others of the first group that has
    it.
    """
    left = dict.fromkeys(names)
    for group, members in groups.items():
        names = [name for name in dict.fromkeys(members) if name in left]
        for number, chunk in enumerate(_chunks(names, BATCH), start=1):
            yield f"{group}-{number}", tuple(chunk)
        for name in names:
            del left[name]


def drawn(target: str) -> bool:
    """Whether a target is drawn of tables: one of `DRAWING`, a figure, a report table or a
    document.
    """
    return target in DRAWING or bool(DRAWN.fullmatch(target) and not PICTURED.fullmatch(target))


def named_in(targets: Iterable[str], names: Iterable[str]) -> list[str]:
    """The experiments among `names` that a target asks for: by name, or by a file that belongs to
    one alone.
    """
    stems = {Path(target).stem for target in targets} | {
        part for target in targets for part in Path(target).parts
    }
    return [
        name for name in names if any(stem == name or stem.endswith(f"_{name}") for stem in stems)
    ]


def plan(
    config: Mapping[str, Any], device: Device, inventory: Inventory, targets: Iterable[str] = ()
) -> Plan:
    """What a run does. `targets` are those that Snakemake was called with; none stands for `all`.

    Where all that is asked for is one of `DRAWING`, mode `auto` only draws; next to another target
    it does not. Raises `UserError`, one line that names key, value and what is accepted, for what
    cannot be run here.
    """
    targets = list(targets) or ["all"]
    validated(dict(config), Config, CONFIG)
    asked = Config(**config)
    _require_sound(asked, device, targets)
    redraw = asked.mode == "redraw" or (
        asked.mode == "auto" and all(target in DRAWING for target in targets)
    )
    measuring = device.gpu is not None and not redraw
    machine = asked.machine or device.machine
    results, archive = f"results/{machine}", f"data/{asked.archive}"
    needed = [
        table.file for table in TABLES.values() if table.archive == "always" and table.needs_gpu
    ]
    archived = not measuring and not inventory.has(*(f"{results}/{file}" for file in needed))
    if archived:
        _require_archive(asked.archive, inventory)

    entries = catalogue.load()
    for name in asked.variants or []:
        choose(entries, name, "variant", f"{CONFIG}: variants")
    unsupported = _unsupported(
        entries, device.arch, device.missing if measuring else {}, asked.variants
    )
    fit = [
        name
        for name in entries
        if name not in unsupported and (asked.variants is None or name in asked.variants)
    ]
    loaded = {
        name: declarations.load(name, asked.sizes_step, fit, entries)
        for name in declarations.names()
    }
    experiments = {name: experiment for name, experiment in loaded.items() if experiment.variants}
    named = named_in(targets, experiments)
    return Plan(
        config=config,
        device=device,
        inventory=inventory,
        machine=machine,
        measuring=measuring,
        drawing=not measuring and all(map(drawn, targets)),
        archived=archived,
        source=archive if archived else results,
        experiments=experiments,
        planned=tuple(name for name, e in experiments.items() if not e.by_name or name in named),
        variants=tuple(fit),
        made=_made(targets, measuring, device.gpu is not None),
        clock_policies=("boost", "locked") if asked.lock_clocks else ("boost",),
        catalogue=entries,
        compared=_pair(asked, entries, COMPARE in targets),
        unsupported=unsupported,
        counters_required=any(not experiments[name].problems for name in named),
        archives=tuple(
            dict.fromkeys(
                [*([archive] if archived else []), *inventory.folders_with("provenance.json")]
            )
        ),
    )


def _require_sound(config: Config, device: Device, targets: list[str]) -> None:
    """Raises `UserError` for keys and targets that do not go with this machine or with each
    other.
    """
    gpus = {table.target for table in TABLES.values() if table.needs_gpu and not table.without_gpu}
    for target in {*targets} & gpus - {"all"}:
        if not device.gpu:
            raise UserError(f"{target} needs a GPU, and none is visible here")
    if config.mode == "measure" and not device.gpu:
        raise UserError(
            f"{CONFIG}: mode = 'measure' needs an NVIDIA GPU, and none is visible here; allowed: auto, redraw"
        )
    for key in ("lock_sm_mhz", "lock_memory_mhz"):
        if (clock := getattr(config, key)) and not config.lock_clocks:
            raise UserError(f"{CONFIG}: {key} = {clock} needs lock_clocks = true")


def _require_archive(name: str, inventory: Inventory) -> None:
    """Raises `UserError` where data/ has no such folder."""
    there = sorted({Path(path).parts[1] for path in inventory.files if re.match("data/.+/", path)})
    if name not in there:
        known = ", ".join(there) or "none"
        raise UserError(f"{CONFIG}: archive = {name!r}: no such folder in data/; there: {known}")


def _made(targets: list[str], measuring: bool, gpu: bool) -> tuple[str, ...]:
    """The recorded tables of targets of their own that a run makes, and those that only a GPU's
    `all` has.
    """
    tables = TABLES.values()
    of_gpu = [t for t in tables if t.needs_gpu and measuring and t.target in ("all", *targets)]
    of_any = [
        t for t in tables if t.without_gpu and t.target in targets and not (t.needs_gpu and gpu)
    ]
    return tuple(dict.fromkeys(table.name for table in of_gpu + of_any))


def _unsupported(
    entries: Catalogue, arch: str, missing: Mapping[str, str], chosen: list[str] | None
) -> dict[str, str]:
    """What cannot be built for `arch`, or whose library is missing, and why.

    Raises `UserError` where one of these was asked for by name.
    """
    reasons = {name: entry.unsupported(arch) for name, entry in entries.items()}
    baselines = {
        name: entry for name, entry in entries.items() if isinstance(entry, catalogue.Baseline)
    }
    reasons |= {
        name: f"{name} {missing[e.library]}"
        for name, e in baselines.items()
        if e.library in missing
    }
    unsupported = {name: reason for name, reason in reasons.items() if reason}
    for name in chosen or []:
        if name in unsupported:
            raise UserError(f"{CONFIG}: variants: {unsupported[name]}")
    return unsupported


def _pair(config: Config, entries: Catalogue, asked: bool) -> Experiment | None:
    """The two variants to set side by side, as an experiment that only profiles; None where none
    are named.
    """
    pair = {"variant_a": config.variant_a, "variant_b": config.variant_b}
    for key, name in pair.items():
        if name is not None:
            choose(entries, name, "variant", f"{CONFIG}: {key}")
    names = tuple(name for name in pair.values() if name)
    if len(set(names)) < 2:
        if asked:
            given = ", ".join(f"{key} = {name or 'null'}" for key, name in pair.items())
            raise UserError(
                f"{CONFIG}: {given}; compare needs two variants: --config variant_a=NAME variant_b=NAME"
            )
        return None
    return Experiment(
        name=COMPARE,
        title="Two variants head to head",
        question="Which counters differ?",
        variants=names,
        profiled=(COMPARED_PROBLEM,),
    )
