# The files that rules take and make: functions alone.


def relative(paths):
    """Paths of the catalogue as Snakemake has them: relative to the project."""
    return [Path(path).relative_to(Path(workflow.basedir)).as_posix() for path in paths]


def swept_sources():
    """Of the kernels whose tiles are swept."""
    swept = ("sgemm_autotuned", "sgemm_warptile")
    return sorted({path for name in swept for path in relative(PLAN.catalogue.kernels[name].sources())})


def swept_in(folder):
    """The tables of an archive's sweeps, which say what its tuned kernels and dispatchers are."""
    paths = (f"{folder}/{name}" for name in (catalogue.TUNED, catalogue.SWEPT))
    return [path for path in paths if PLAN.inventory.has(path)]


def built(variant):
    """The cubin and PTX that running a catalogue entry needs, of a dispatcher all its kernels'; none for a library."""
    kernels = PLAN.catalogue.runnable[variant].variants if variant in PLAN.runnable else []
    return [path for kernel in kernels for path in multiext(f"{BUILD}/{kernel.name}", ".cubin", ".ptx")]


def built_for(variants):
    """The same of several."""
    return sorted({path for variant in variants for path in built(variant)})


def checked(experiment, part):
    """The correctness table of a part of an experiment; none for libraries alone."""
    return f"{RESULTS}/parts/check/{experiment}/{part}.csv" if PLAN.runnable_of(experiment, part) else []


def _bench(suffix):
    """What was timed in a scope: parts of this run, and those that earlier ones left."""
    return lambda wildcards: [f"{RESULTS}/parts/bench/{stem}{suffix}" for stem in PLAN.timed(wildcards.scope)]


def _profile(suffix):
    """What profiling the experiments of a scope leaves."""
    return lambda wildcards: [
        f"{RESULTS}/parts/profile/{experiment.name}{suffix}"
        for experiment in PLAN.in_scope(wildcards.scope)
        if experiment.profiled
    ]


def _emulated(table):
    return lambda wildcards: [
        f"{RESULTS}/parts/emulate/{name}/{table}.csv" for name in PLAN.variants_in(wildcards.scope)
    ]


def _checks(wildcards):
    """The checks of each kernel that takes part, then those of the timed runs."""
    parts = PLAN.checked(wildcards.scope)
    names = dict.fromkeys(name for part in parts for name in PLAN.runnable_of(*part.split("/")))
    alone = [f"{RESULTS}/parts/check/{part}.csv" for part in parts]
    emulated = [f"{RESULTS}/parts/emulate/{name}/checks.csv" for name in names]
    return alone + emulated + _bench(".checks.csv")(wildcards)


def tables_of(folder):
    """The measured tables in a folder: those of one experiment alone, or all of `PLAN.source`."""
    measured = [table for table in registry.tables().values() if table.needs_gpu]
    if folder == PLAN.source:
        return sorted(PLAN.tables[table.name] for table in measured if table.name in PLAN.tables)
    return [f"{folder}/{table.file}" for table in measured if table.archive == "always"]


def figures_of_kind(kind):
    """The PDFs of all experiments' figures of a kind: ladder, sizes or counters."""
    groups = EXPERIMENT_FIGURES.items()
    return [f"results/figures/{kind}_{name}.pdf" for (_, own), names in groups if own == kind for name in names]


def figures_of(experiment):
    """The figures of one experiment."""
    groups = EXPERIMENT_FIGURES.items()
    return [f"results/figures/{kind}_{experiment}.svg" for (_, kind), names in groups if experiment in names]
