# Figures and the paper's tables. They read tables only: measured ones in results/MACHINE, or archived ones in data/.

ANALYSIS = [
    "analysis/data.py",
    "analysis/metrics.py",
    "analysis/style.py",
    "contracts/metrics.yaml",
]
LABEL = "--archived" if ARCHIVED else ""


def measured(folder):
    """The tables in a folder that figures read."""
    return [f"{folder}/{table}" for table in TABLES if table != "samples.parquet"]


def figure_names(experiment):
    """The figures of one experiment alone: its bars or its sweep, and its counters."""
    names = []
    if experiment.sizes:
        names.append(f"{'sizes' if experiment.swept else 'ladder'}_{experiment.name}")
    if experiment.profile_size:
        names.append(f"counters_{experiment.name}")
    return names


def experiment_outputs(name):
    """What `snakemake NAME` leaves behind."""
    return [
        f"results/figures/{figure}.svg" for figure in figure_names(EXPERIMENTS[name])
    ]


rule experiment_figure:
    input:
        lambda wildcards: measured(tables_of(wildcards.experiment)),
        ANALYSIS,
        "analysis/{kind}.py",
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/{kind}_{experiment}.svg",
            category=lambda wildcards: {"ladder": "Ladder", "sizes": "Sizes"}[
                wildcards.kind
            ],
            caption="../report/{kind}.rst",
            labels={"figure": "{experiment}"},
        ),
        pdf="results/figures/{kind}_{experiment}.pdf",
    log:
        "results/logs/figures/{kind}_{experiment}.log",
    wildcard_constraints:
        kind="ladder|sizes",
    conda:
        "../../env.yaml"
    params:
        measured=lambda wildcards: tables_of(wildcards.experiment),
        label=LABEL,
    shell:
        "python -m analysis.{wildcards.kind} --experiment {wildcards.experiment} --measured {params.measured}"
        " --variants {input.variants} {params.label} --out {output.svg} 2>&1 | tee {log}"


rule experiment_counters:
    input:
        lambda wildcards: measured(tables_of(wildcards.experiment)),
        ANALYSIS,
        "analysis/counters.py",
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/counters_{experiment}.svg",
            category="Counters",
            caption="../report/counters.rst",
            labels={"figure": "{experiment}"},
        ),
        pdf="results/figures/counters_{experiment}.pdf",
    log:
        "results/logs/figures/counters_{experiment}.log",
    conda:
        "../../env.yaml"
    params:
        measured=lambda wildcards: tables_of(wildcards.experiment),
        only=lambda wildcards: " ".join(EXPERIMENTS[wildcards.experiment].variants),
        label=LABEL,
    shell:
        "python -m analysis.counters --only {params.only} --measured {params.measured} --variants {input.variants}"
        " {params.label} --out {output.svg} 2>&1 | tee {log}"


CATEGORIES = {
    "counters": "Counters",
    "roofline": "Counters",
    "correctness": "Correctness",
}


rule figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/{figure}.py",
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/{figure}.svg",
            category=lambda wildcards: CATEGORIES[wildcards.figure],
            caption="../report/{figure}.rst",
            labels={"figure": "{figure}"},
        ),
        pdf="results/figures/{figure}.pdf",
    log:
        "results/logs/figures/{figure}.log",
    wildcard_constraints:
        figure="|".join(CATEGORIES),
    conda:
        "../../env.yaml"
    params:
        label=LABEL,
    shell:
        "python -m analysis.{wildcards.figure} --measured {SOURCE} --variants {input.variants} {params.label}"
        " --out {output.svg} 2>&1 | tee {log}"


rule paper_tables:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/tables.py",
        [f"experiments/{name}.yaml" for name in EXPERIMENTS],
        variants="results/variants.csv",
        resources=f"{RESULTS}/resources.csv",
    output:
        "results/tables/summary.json",
        report(
            [
                f"results/tables/{name}.csv"
                for name in ("ladder", "sizes", "checks", "counters", "comparison")
            ],
            category="Tables",
            caption="../report/tables.rst",
        ),
        "results/tables/resources.csv",
    log:
        "results/logs/tables.log",
    conda:
        "../../env.yaml"
    params:
        label=LABEL,
    shell:
        "python -m analysis.tables --measured {SOURCE} --variants {input.variants} --resources {input.resources}"
        " {params.label} --out results/tables 2>&1 | tee {log}"
