# The files that rules take and make: functions alone.


def relative(paths):
    """Paths of the catalogue as Snakemake has them: relative to the project."""
    return [Path(path).relative_to(Path(workflow.basedir)).as_posix() for path in paths]


def swept_sources():
    """Of the kernels whose tiles are swept."""
    swept = ("sgemm_autotuned", "sgemm_warptile")
    return sorted({path for name in swept for path in relative(catalogue.kernels()[name].sources())})


def built(variant):
    """The cubin and PTX that running a catalogue entry needs, of a dispatcher all its kernels'; none for a library."""
    kernels = catalogue.runnable()[variant].variants if variant in PLAN.runnable else []
    return [path for kernel in kernels for path in multiext(f"{BUILD}/{kernel.name}", ".cubin", ".ptx")]


def checked(variant):
    """The correctness table of a kernel or dispatcher; none for a library."""
    return f"{RESULTS}/parts/check/{variant}.csv" if variant in PLAN.runnable else []


def _sizes(variant):
    """The sizes at which an entry is profiled, and so predicted."""
    return sorted({size for name, size in PLAN.profiled(PLAN.everything.values()) if name == variant})


def _bench(suffix):
    """What was timed in a scope: parts of this run, and those that earlier ones left."""
    return lambda wildcards: [f"{RESULTS}/parts/bench/{stem}{suffix}" for stem in PLAN.timed(wildcards.scope)]


def _profile(suffix, with_beta=False):
    """Counters of the problems of a scope: of those whose beta is 0, or of the others."""
    return lambda wildcards: [
        f"{RESULTS}/parts/profile/{variant}-{size}{f'-beta{beta:g}' if beta else ''}{suffix}"
        for variant, size, beta in PLAN.profiles(PLAN.in_scope(wildcards.scope))
        if bool(beta) == with_beta
    ]


def _emulated(table):
    return lambda wildcards: [
        f"{RESULTS}/parts/emulate/{name}/{table}.csv" for name in PLAN.variants_in(wildcards.scope)
    ]


def _checks(wildcards):
    """The checks of each kernel that takes part, then those of the timed runs."""
    alone = [
        path
        for name in PLAN.checked(wildcards.scope)
        for path in (f"{RESULTS}/parts/check/{name}.csv", f"{RESULTS}/parts/emulate/{name}/checks.csv")
    ]
    return alone + _bench(".checks.csv")(wildcards)


def sources(one, experiment=None):
    """The files that a figure or report table is made from, but code: recorded tables, report tables, others by path."""
    own = _FILES | PLACES["of_experiment"].get(experiment, {})
    found = []
    for name in (*one.reads, *(name for name in one.optional if name in own)):
        if name.startswith("report:"):
            found.append(f"results/tables/{drawn.tables()[name.removeprefix('report:')].file}")
        elif name in drawn.FOLDERS:  # the archives' tables, and this run's own beside them
            files = [f"{folder}/{table.file}" for folder in PLACES[name] for table in registry.tables().values()]
            found += [path for path in files if PLAN.inventory.has(path)]
            found += own.values() if PLAN.measuring else []
        else:
            found.append(name if "/" in name else own[name])
    return found


def in_report(path, one, labels, **place):
    """An output, with its place in the report where it has one."""
    if not one.category or ("other_runs" in one.reported_with and not PLACES["other_runs"]):
        return path
    return report(path, category=one.category, caption=f"../../{one.caption}", labels=labels, **place)


def figures_of(experiment):
    """The figures of one experiment."""
    return [f"results/figures/{name}.svg" for name, (_, of) in OUTPUTS.items() if of == experiment]


def _place(name):
    """A figure as an output, with its place in the report: by worklog where it is of one experiment."""
    figure, experiment = OUTPUTS[name]
    if figure.name in explorer.STANDS_FOR and name != explorer.OPENING:
        return f"results/figures/{name}.svg"
    known = PLACES["experiments"].get(experiment, {})
    title = known.get("title", figure.title)
    return in_report(
        f"results/figures/{name}.svg", figure, {"figure": title}, subcategory=known.get("worklog", figure.subcategory)
    )
