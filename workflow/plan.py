"""What a run does, worked out from configuration, the machine and what is on disk: a value, with no Snakemake in it.

`plan(config, device, inventory, targets)` is pure: it reads the project's declarations (catalogue, experiments, the
registries of tables and figures), and otherwise nothing but its arguments. The rules read the `Plan` and decide
nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contracts import UserError, choose, declared, registry, validate
from experiments import declarations
from experiments.declarations import Experiment
from experiments.stages import store
from kernels import catalogue
from kernels.catalogue import Catalogue
from kernels.problem import ProblemSpec

CONFIG = "config.yaml"
# Targets that draw what is there: nothing is measured, built or emulated
DRAWING = ("paper", "explorer", "claims", "readme")
DRAWN = re.compile(r"results/((figures|tables|report)/.+|[a-z]+\.(pdf|html))")  # files that are drawn, too; but those
PICTURED = re.compile(r"results/figures/banks_.+")  # that show what the emulator does today
COMPARE = "compare"
# Keys of the configuration that say what a run is about, or that `Plan.job` has under the name of an option
INTERPRETED = (
    *("machine", "archive", "mode", "gpu_node", "resume", "variants", "variant_a", "variant_b"),
    *("lock_clocks", "lock_sm_mhz", "lock_memory_mhz"),
)
SWEEP = "tile_autotune"
COMPARED_PROBLEM = ProblemSpec.square(4096)
PART = 8  # variants that one job checks or times
WINDOWS = 120  # about so many does one job time, so that several GPUs end at about the same time
# What a job that times leaves behind
TIMED = (".csv", ".checks.csv", ".parquet", ".algorithm_search.csv")
# What the stages that need no GPU leave behind for each kernel
BUILT = (".cu", ".ptx", ".cubin", ".sass", ".json")
EMULATED = ("checks.csv", "predictions.csv", "bounds.csv", "shared_widths.csv", "bank_accesses.json")


# Words of a GPU's name that a folder's leaves out: maker, brand, and the memory's size and kind
UNNAMED = re.compile(r"nvidia|geforce|\d+gb|hbm\d*e?")


@dataclass(frozen=True)
class Device:
    """What was found: compilers and, where there is one, the GPU."""

    toolchain: Mapping[str, str | None]  # as in toolchain.json
    missing: Mapping[str, str] = field(default_factory=dict)  # libraries that are measured, and are not here: why

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
        """Folder for its results: "h100" for "NVIDIA H100 80GB HBM3", "no-gpu" where there is none."""
        if not self.gpu:
            return "no-gpu"
        words = re.findall(r"[a-z0-9]+", self.gpu.lower())
        kept = [word for word in words if not UNNAMED.fullmatch(word)]
        return "-".join(kept or words)


@dataclass(frozen=True)
class Inventory:
    """The files below results/ and data/, relative to the project."""

    files: frozenset[str]

    @classmethod
    def of(cls, root: Path) -> Inventory:
        """What lies below `root` now; only looked at, not read."""
        found = (path for name in ("results", "data") for path in (root / name).rglob("*"))
        return cls(frozenset(path.relative_to(root).as_posix() for path in found if path.is_file()))

    def has(self, *paths: str) -> bool:
        """Whether all of these files are there."""
        return self.files.issuperset(paths)

    def folders_with(self, name: str) -> list[str]:
        """Folders data/X that hold a file of this name, by name."""
        found = (Path(path) for path in self.files if path.startswith("data/"))
        return sorted(path.parent.as_posix() for path in found if path.name == name and len(path.parts) == 3)


@dataclass(frozen=True)
class Plan:
    """Everything that the rules read."""

    config: Mapping[str, Any]
    device: Device
    inventory: Inventory
    machine: str
    measuring: bool
    drawing: bool  # of tables that need no GPU, too, those that are there are read as they are
    archived: bool  # the tables of measurements are an archive's
    source: str  # folder of the tables of measurements: results/MACHINE or data/ARCHIVE
    why_archived: str | None
    experiments: Mapping[str, Experiment]
    planned: tuple[str, ...]  # experiments that are measured, where anything is
    variants: tuple[str, ...]  # of the catalogue, as far as the configuration limits them
    runnable: tuple[str, ...]  # kernels of ours, and dispatchers over them
    kernels: tuple[str, ...]  # what is built
    unfit: Mapping[str, str]  # of the catalogue, left out for want of another architecture or a library: why
    made: tuple[str, ...]  # recorded tables that the run makes
    clock_policies: tuple[str, ...]
    catalogue: Catalogue  # with the record of the sweep over tiles that stands behind its tuned entries, if any
    records: tuple[str, ...]  # that record and the sweep behind dispatchers next to it, where they are there
    tuning: str | None  # folder of the sweep that is drawn
    sweeping: bool
    compared: Experiment | None  # the pair of `snakemake compare`
    counters_required: bool  # counters are all that was asked for: without them the run fails
    archives: tuple[str, ...]  # folders data/X with provenance, that which stands in first

    @property
    def results(self) -> str:
        """Folder of this machine's results."""
        return f"results/{self.machine}"

    @property
    def build(self) -> str:
        """Folder of the cubins."""
        return f"results/build/{self.device.arch}"

    @property
    def job(self) -> Mapping[str, Any]:
        """What the stages take as `--job`: options by name, resolved, with the keys of the configuration that nothing
        here interprets."""
        return {key: value for key, value in self.config.items() if key not in INTERPRETED} | {
            "arch": self.device.arch,
            "build_dir": self.build,
            "store": f"{self.results}/{store.FOLDER}",
            "tuned": str(self.catalogue.record) if self.catalogue.record else None,
            "lock": self.config["lock_clocks"],
            "sm_mhz": self.config["lock_sm_mhz"],
            "memory_mhz": self.config["lock_memory_mhz"],
        }

    @property
    def everything(self) -> Mapping[str, Experiment]:
        """The experiments, and the pair to compare as one that only profiles."""
        return {**self.experiments, **({COMPARE: self.compared} if self.compared else {})}

    def in_scope(self, scope: str) -> tuple[Experiment, ...]:
        """The experiments of a folder of tables: those planned in results/MACHINE, one in results/MACHINE/only/NAME."""
        names = [scope.rpartition("/")[2]] if scope else self.planned
        return tuple(self.everything[name] for name in names)

    def variants_in(self, scope: str) -> tuple[str, ...]:
        """The kernels and dispatchers that take part in a scope, each once."""
        names = (variant for experiment in self.in_scope(scope) for variant in experiment.variants)
        return tuple(dict.fromkeys(name for name in names if name in self.runnable))

    def folder_of(self, experiment: str) -> str:
        """The folder whose tables an experiment's own figures are drawn from."""
        alone = self.measuring and experiment in (*self.planned, COMPARE)
        return f"{self.results}/only/{experiment}" if alone else self.source

    def parts(self, experiment: str) -> Mapping[str, tuple[str, ...]]:
        """The variants of an experiment as jobs take them, by the names of the parts: some of one dtype each."""
        by_dtype: dict[str, list[str]] = {}
        for name in self.everything[experiment].variants:
            by_dtype.setdefault(self.catalogue.find(name).dtype, []).append(name)
        return {
            f"{dtype}-{first // PART + 1}": tuple(names[first : first + PART])
            for dtype, names in by_dtype.items()
            for first in range(0, len(names), PART)
        }

    def slices(self, experiment: str, part: str) -> list[str]:
        """The problems of a part as jobs time them: 2of3 is every third from the second on, so that each job has small
        ones and large ones."""
        asked = self.everything[experiment]
        windows = len(self.parts(experiment)[part]) * len(asked.problems) * len(asked.data) * asked.processes
        count = min(-(-windows // WINDOWS), len(asked.problems))
        return [f"{number}of{count}" for number in range(1, count + 1)]

    def timed(self, scope: str) -> tuple[str, ...]:
        """What is timed in a scope, as EXPERIMENT/PART-SLICE-CLOCK_POLICY, with what earlier runs left by name."""
        found = [stem for e in self.in_scope(scope) if e.problems for stem in self._timed(e.name)]
        return (*found, *(() if scope else self.timed_before))

    def _timed(self, experiment: str) -> list[str]:
        return [
            f"{experiment}/{part}-{slice_}-{clock_policy}"
            for part in self.parts(experiment)
            for slice_ in self.slices(experiment, part)
            for clock_policy in self.clock_policies
        ]

    @functools.cached_property
    def timed_before(self) -> tuple[str, ...]:
        """What earlier runs timed of experiments not planned now: it joins the tables, and is not made again."""
        folder, found = f"{self.results}/parts", []
        for name in self.experiments:
            left = [f"{folder}/check/{name}/{part}.csv" for part in self.parts(name) if self.runnable_of(name, part)]
            if name in self.planned or not self.inventory.has(*left):
                continue
            for stem in self._timed(name):
                if self.inventory.has(*(f"{folder}/bench/{stem}{suffix}" for suffix in TIMED)):
                    found.append(stem)
        return tuple(found)

    def checked(self, scope: str) -> tuple[str, ...]:
        """The parts whose checks a scope's table holds, as EXPERIMENT/PART: those that take part, and those that
        earlier runs timed."""
        before = () if scope else tuple(dict.fromkeys(stem.partition("/")[0] for stem in self.timed_before))
        names = (*(experiment.name for experiment in self.in_scope(scope)), *before)
        return tuple(f"{name}/{part}" for name in names for part in self.parts(name) if self.runnable_of(name, part))

    def runnable_of(self, experiment: str, part: str) -> tuple[str, ...]:
        """The kernels and dispatchers of a part: it may be of libraries alone."""
        return tuple(name for name in self.parts(experiment)[part] if name in self.runnable)

    def predicted(self, variant: str) -> tuple[ProblemSpec, ...]:
        """The problems whose counters are wanted of a variant in this run, and so predicted; C is not read in a
        prediction."""
        asked = (e for e in self.everything.values() if not e.by_name or e.name in self.planned)
        wanted = (p for e in asked if variant in e.variants for p in e.profiled)
        return tuple(dict.fromkeys(replace(problem, beta=ProblemSpec.beta) for problem in wanted))

    @functools.cached_property
    def tables(self) -> Mapping[str, str]:
        """The source of each recorded table that is there or is made: name to path."""
        found = {}
        for table in registry.tables().values():
            if table.parts in ("build", "emulate"):
                alone = table.name != "emulated_checks" or self.archived  # the GPU's checks hold the emulator's, too
                folder: str | None = self._folder_without_gpu(table) if alone else None
            elif table.target == SWEEP:
                folder = self.tuning
            elif table.without_gpu and self._made_or_there(table):
                folder = self.results
            elif table.name in self.made or self.inventory.has(f"{self.source}/{table.file}"):
                folder = self.source
            else:
                folder = None
            if folder:
                found[table.name] = f"{folder}/{table.file}"
        return found

    @property
    def to_archive(self) -> list[str]:
        """The tables that an archive of this run takes; none where an archive stands in for it."""
        wanted = (t for t in registry.tables().values() if t.archive != "never")
        made = (t.name for t in wanted if t.archive == "always" or t.target == "all" or t.name in self.made)
        return [] if self.archived else [self.tables[name] for name in made if name in self.tables]

    def _folder_without_gpu(self, table: registry.Table) -> str | None:
        """Where a table of a stage that needs no GPU is; None where drawing does without it."""
        if not self.joins(table.name):
            return self.source
        complete = not self.drawing or table.parts in self.kept
        return self.results if complete or table.archive != "never" else None

    def joins(self, name: str) -> bool:
        """Whether a table of a stage that needs no GPU is joined from its parts, rather than read where it is."""
        table = registry.tables()[name]
        there = self.inventory.has(f"{self.source}/{table.file}")
        return not self.drawing or table.parts in self.kept or not there

    @functools.cached_property
    def kept(self) -> frozenset[str]:
        """The stages that need no GPU of which drawing takes the parts as they are: those that ran for every kernel."""
        parts = {
            "build": [f"{self.build}/{name}{suffix}" for name in self.kernels for suffix in BUILT],
            "emulate": [f"{self.results}/parts/emulate/{name}/{file}" for name in self.runnable for file in EMULATED],
        }
        return frozenset(stage for stage, files in parts.items() if self.drawing and self.inventory.has(*files))

    def _made_or_there(self, table: registry.Table) -> bool:
        """Whether a table is made in this machine's folder, or is there from before."""
        return table.name in self.made or self.inventory.has(f"{self.results}/{table.file}")

    @property
    def checking(self) -> bool:
        """Whether the run ends with all checks passed: on the GPU, or, with an archive, on the emulator."""
        return self.measuring or self.archived


def drawn(target: str) -> bool:
    """Whether a target is drawn of tables: one of `DRAWING`, a figure, a report table or a document."""
    return target in DRAWING or bool(DRAWN.fullmatch(target) and not PICTURED.fullmatch(target))


def mode_for(mode: str, targets: Iterable[str]) -> str:
    """The mode that targets imply: `auto` becomes `redraw` where all that is asked for is drawing (`DRAWING`).

    With another target next to them (`all paper`), the run is what the other one asks for.
    """
    asked = list(targets)
    return "redraw" if mode == "auto" and asked and all(target in DRAWING for target in asked) else mode


def named_in(targets: Iterable[str], names: Iterable[str]) -> list[str]:
    """The experiments among `names` that a target asks for: by name, or by a file that belongs to one alone."""
    stems = {Path(target).stem for target in targets} | {part for target in targets for part in Path(target).parts}
    return [name for name in names if any(stem == name or stem.endswith(f"_{name}") for stem in stems)]


def whole_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the default of each key that it lacks. Raises `UserError` for one that is not allowed."""
    validate(dict(config), "config", CONFIG)
    return declared.Config(**config).model_dump()


def plan(config: Mapping[str, Any], device: Device, inventory: Inventory, targets: Iterable[str] = ()) -> Plan:
    """What a run does. `targets` are those that Snakemake was called with; none stands for `all`.

    Raises `UserError`, one line that names key, value and what is accepted, for what cannot be run here.
    """
    targets = list(targets) or ["all"]
    config = whole_config(config)
    config |= {"mode": mode_for(config["mode"], targets)}
    if config["mode"] == "measure" and not device.gpu:
        raise UserError(
            f"{CONFIG}: mode = 'measure' needs an NVIDIA GPU, and none is visible here; allowed: auto, redraw"
        )
    measuring = device.gpu is not None and config["mode"] != "redraw"
    machine = config["machine"] or device.machine
    results, archive = f"results/{machine}", f"data/{config['archive']}"

    needed = [table.file for table in registry.tables().values() if table.archive == "always" and table.needs_gpu]
    archived = not measuring and not inventory.has(*(f"{results}/{file}" for file in needed))
    source = archive if archived else results
    if archived and not any(path.startswith(f"{archive}/") for path in inventory.files):
        there = sorted(
            {Path(path).parts[1] for path in inventory.files if path.startswith("data/") and path.count("/") > 1}
        )
        raise UserError(
            f"{CONFIG}: archive = {config['archive']!r}: no such folder in data/; there: {', '.join(there) or 'none'}"
        )
    why = "only drawn again" if device.gpu else "no NVIDIA GPU is visible here"

    folders = dict.fromkeys([results, f"data/{machine}", archive])
    swept = (catalogue.TUNED, catalogue.SWEPT)
    record = next((folder for folder in folders if any(inventory.has(f"{folder}/{name}") for name in swept)), None)
    entries = catalogue.load(Path(record, catalogue.TUNED) if record else None)
    sweeping = measuring and SWEEP in targets
    tuning = results if sweeping else record if record and inventory.has(f"{record}/tuning.csv") else None
    if SWEEP in targets and tuning is None:
        raise UserError(f"{SWEEP} needs a GPU: none here, and no sweep to draw in {results} or {archive}")

    chosen = config["variants"]
    for name in chosen or []:
        choose(entries, name, "variant", f"{CONFIG}: variants")
    unfit = _unfit(entries, device.arch, device.missing if measuring else {}, chosen)
    fit = [name for name in entries if name not in unfit and (chosen is None or name in chosen)]
    loaded = {name: declarations.load(name, config["sizes_step"], fit, entries) for name in declarations.names()}
    experiments = {name: experiment for name, experiment in loaded.items() if experiment.variants}
    named = named_in(targets, experiments)
    planned = tuple(name for name, e in experiments.items() if not e.by_name or name in named)
    variants = tuple(fit)
    runnable = tuple(name for name in variants if name in entries.runnable)
    built = dict.fromkeys(kernel.name for name in runnable for kernel in entries.runnable[name].variants)
    _require_lock(config)
    own = registry.tables().values()
    made = tuple(t.name for t in own if t.needs_gpu and measuring and (t.target == "all" or t.target in targets))
    emulated = [t for t in own if t.without_gpu and t.target in targets]
    made += tuple(t.name for t in emulated if not t.needs_gpu or device.gpu is None)
    return Plan(
        config=config,
        device=device,
        inventory=inventory,
        machine=machine,
        measuring=measuring,
        drawing=not measuring and all(map(drawn, targets)),
        archived=archived,
        source=source,
        why_archived=why if archived else None,
        experiments=experiments,
        planned=planned,
        variants=variants,
        runnable=runnable,
        kernels=tuple(built),
        made=made,
        clock_policies=("boost", "locked") if config["lock_clocks"] else ("boost",),
        catalogue=entries,
        records=tuple(f"{record}/{name}" for name in swept if record and inventory.has(f"{record}/{name}")),
        tuning=tuning,
        sweeping=sweeping,
        compared=_pair(config, entries, COMPARE in targets),
        unfit=unfit,
        counters_required=any(not experiments[name].problems for name in named),
        archives=tuple(dict.fromkeys([*([source] if archived else []), *inventory.folders_with("provenance.json")])),
    )


def _unfit(entries: Catalogue, arch: str, missing: Mapping[str, str], chosen: list[str] | None) -> dict[str, str]:
    """What cannot be built for `arch`, or whose library is missing, and why.

    Raises `UserError` where one of these was asked for by name.
    """
    reasons = {name: entry.unfit(arch) for name, entry in entries.items()}
    baselines = {name: entry for name, entry in entries.items() if isinstance(entry, catalogue.Baseline)}
    reasons |= {name: f"{name} {missing[e.library]}" for name, e in baselines.items() if e.library in missing}
    found = {name: reason for name, reason in reasons.items() if reason}
    for name in chosen or []:
        if name in found:
            raise UserError(f"{CONFIG}: variants: {found[name]}")
    return found


def _require_lock(config: Mapping[str, Any]) -> None:
    """Clocks are named only where locking is asked for."""
    named = [key for key in ("lock_sm_mhz", "lock_memory_mhz") if config[key]]
    if named and not config["lock_clocks"]:
        raise UserError(f"{CONFIG}: {named[0]} = {config[named[0]]} needs lock_clocks = true")


def _pair(config: Mapping[str, Any], entries: Catalogue, asked: bool) -> Experiment | None:
    """The two variants to set side by side, as an experiment that only profiles; None where none are named."""
    pair = {key: config[key] for key in ("variant_a", "variant_b")}
    for key, name in pair.items():
        if name is not None:
            choose(entries, name, "variant", f"{CONFIG}: {key}")
    names = tuple(name for name in pair.values() if name)
    if len(set(names)) < 2:
        if asked:
            given = ", ".join(f"{key} = {name or 'null'}" for key, name in pair.items())
            raise UserError(f"{CONFIG}: {given}; compare needs two variants: --config variant_a=NAME variant_b=NAME")
        return None
    return replace(
        Experiment(name=COMPARE, title="Two variants head to head", question="Which counters differ?", variants=names),
        profiled=(COMPARED_PROBLEM,),
    )
