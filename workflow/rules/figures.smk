# Figures and report tables, of recorded tables alone: those measured in results/MACHINE, or an archive's in data/.


def tables_of(folder):
    """The tables that figures of measurements read in a folder, of one experiment alone or all of `PLAN.source`: what was
    measured, and resources.csv, which says what machine code this tree builds."""
    built = f"{folder}/resources.csv"
    measured = [table for table in TABLES.values() if table.needs_gpu]
    if folder != PLAN.source:
        return [
            built,
            *(f"{folder}/{table.file}" for table in measured if table.archive == "always"),
        ]
    built_too = PLAN.measuring or PLAN.inventory.has(built)
    return sorted(
        [PLAN.tables[table.name] for table in measured if table.name in PLAN.tables]
        + [built] * built_too
    )


def measured_for(experiment):
    """The tables that measuring an experiment by its name makes, drawn or not: of counters, also those where C is read."""
    folder = PLAN.folder_of(experiment)
    with_beta = any(problem.beta for problem in PLAN.experiments[experiment].profiled)
    return [*tables_of(folder), *([f"{folder}/counters_with_beta.csv"] if with_beta else [])]


# What they read: what this run measured, or the archive that stands in for it, and what needs no GPU. Where nothing was measured,
# this tree's own build and emulation (--here) come before the archive's, as far as they are there.
MEASURED = tables_of(PLAN.source)
RECORDED = sorted(PLAN.tables.values())
SHOWN = f"--results {PLAN.source}"
HERE = f"--here {RESULTS}" if PLAN.archived else ""
ARCHIVED = sorted(path.as_posix() for folder in PLAN.archives for path in Path(folder).iterdir())
CODE = sorted(path.as_posix() for path in Path("analysis").glob("*.py"))
DRAWING_CODE = sorted(path.as_posix() for path in Path("analysis/figures").glob("*.py"))
STEPS = sorted(path.as_posix() for path in Path("paper").rglob("steps.yaml"))


rule figures_of_timings:
    input:
        MEASURED,
        CODE,
        DRAWING_CODE,
        "results/variants.csv",
    output:
        reported(
            "results/figures/fractions.svg", "Speed", "Three definitions of the fraction of cuBLAS"
        ),
        reported("results/figures/sizes.svg", "Speed", "fp32 over sizes"),
        reported("results/figures/shapes.svg", "Speed", "Problems that are not square"),
        reported("results/figures/power.svg", "Speed", "Power, clock and data"),
        expand(
            "results/figures/{name}.pdf",
            name=["fractions", "sizes", "shapes", "power"],
        ),
    log:
        "results/logs/figures/timings.log",
    params:
        shown=SHOWN,
    shell:
        "python -m analysis draw {params.shown} --out results/figures fractions sizes shapes power"
        " 2>&1 | tee {log}"


rule figures_of_counters:
    input:
        RECORDED,
        STEPS,
        CODE,
        DRAWING_CODE,
        "results/variants.csv",
    output:
        reported("results/figures/steps.svg", "Counters", "Each step: gain and counters"),
        reported("results/figures/stalls.svg", "Counters", "What warps wait for"),
        reported("results/figures/roofline.svg", "Counters", "Rooflines"),
        reported("results/figures/bounds.svg", "Counters", "Minimum cycles of each unit"),
        reported("results/figures/emulator.svg", "Counters", "The emulator beside Nsight Compute"),
        expand(
            "results/figures/{name}.pdf",
            name=["steps", "stalls", "roofline", "bounds", "emulator"],
        ),
    log:
        "results/logs/figures/counters.log",
    params:
        shown=f"{SHOWN} {HERE}",
    shell:
        "python -m analysis draw {params.shown} --out results/figures steps stalls roofline bounds emulator 2>&1 | tee {log}"


rule figures_of_studies:
    input:
        MEASURED,
        CODE,
        DRAWING_CODE,
        "results/variants.csv",
    output:
        reported("results/figures/error.svg", "Studies", "Rounding errors over k"),
        reported("results/figures/issue.svg", "Studies", "Issue cycles of shared loads"),
        reported("results/figures/tiles.svg", "Studies", "Speed of each tile"),
        expand("results/figures/{name}.pdf", name=["error", "issue", "tiles"]),
    log:
        "results/logs/figures/studies.log",
    params:
        shown=SHOWN,
    shell:
        "python -m analysis draw {params.shown} --out results/figures error issue tiles 2>&1 | tee {log}"


# Figures of an experiment: of its squares a ladder, or a figure over sizes where there are many; of other shapes; and its counters.
# While measuring, each is drawn of its experiment's own tables, and so by itself; else one process draws all of a kind.
MANY_SIZES = 8
FIGURE_KINDS = {
    "ladder": "Fraction of cuBLAS of each kernel",
    "sizes": "Fraction of cuBLAS over sizes",
    "shapes": "Fraction of cuBLAS by shape",
    "counters": "Counters of each kernel",
}
EXPERIMENT_FIGURES = {}
for _name, _experiment in PLAN.experiments.items():
    _sizes = {problem.n for problem in _experiment.problems if problem.m == problem.n == problem.k}
    _kinds = (["sizes"] if len(_sizes) > MANY_SIZES else ["ladder"]) if _sizes else []
    _kinds += ["shapes"] if _experiment.any_shape else []
    # of squares where C is not read: a figure of no row would be an error
    _kinds += (
        ["counters"] if any(p.m == p.n == p.k and not p.beta for p in _experiment.profiled) else []
    )
    for _kind in _kinds:
        EXPERIMENT_FIGURES.setdefault((PLAN.folder_of(_name), _kind), []).append(_name)


def figures_of_kind(kind):
    """The PDFs of all experiments' figures of a kind: ladder, sizes or counters."""
    groups = EXPERIMENT_FIGURES.items()
    return [
        f"results/figures/{kind}_{name}.pdf"
        for (_, own), names in groups
        if own == kind
        for name in names
    ]


def figures_of(experiment):
    """The figures of one experiment."""
    groups = EXPERIMENT_FIGURES.items()
    return [
        f"results/figures/{kind}_{experiment}.svg"
        for (_, kind), names in groups
        if experiment in names
    ]


for (_folder, _kind), _names in EXPERIMENT_FIGURES.items():

    rule:
        name:
            f"{_kind}_of_{Path(_folder).name}"
        input:
            tables_of(_folder),
            CODE,
            DRAWING_CODE,
            [f"experiments/{name}.yaml" for name in _names],
            "results/variants.csv",
        output:
            [
                reported(
                    f"results/figures/{_kind}_{name}.svg",
                    "Experiments",
                    FIGURE_KINDS[_kind],
                    caption=_kind,
                    subcategory=PLAN.experiments[name].title,
                )
                for name in _names
            ],
            [f"results/figures/{_kind}_{name}.pdf" for name in _names],
        log:
            f"results/logs/figures/{_kind}_of_{Path(_folder).name}.log",
        params:
            shown=f"--results {_folder}",
            names=[f"{_kind}:{name}" for name in _names],
        shell:
            "python -m analysis draw {params.shown} --out results/figures {params.names} 2>&1 | tee {log}"
