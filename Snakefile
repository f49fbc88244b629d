"""GEMM Ladder: from kernel sources to the report.

snakemake --cores 1 all            everything that this machine can do
snakemake --cores 1 sgemm_ladder   one experiment (any file name in experiments/*.yaml)
snakemake --cores 1 tile_autotune  time all tiles of a kernel; the log ends with what to write in kernels/catalogue.yaml
snakemake --cores 1 compare        any two variants side by side: --config variant_a=NAME variant_b=NAME
snakemake --cores 1 paper          figures, paper and supplement again, from what is there; measures and emulates nothing
snakemake --cores 1 explorer       the same for results/explorer.html, on which a reader chooses what to see
snakemake --cores 1 claims         what the worklogs claim and what holds, of what is there; fails where a verdict changed
snakemake --cores 1 report         the browsable report, results/report.html
snakemake --cores 1 readme         README's table, findings and figure, of the archives
snakemake --cores 1 archive        put this machine's measurements under data/
"""

import difflib

from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/emulate.smk"


if PLAN.measuring:

    include: "workflow/rules/measure.smk"


include: "workflow/rules/studies.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        "results/paper.pdf",
        "results/supplement.pdf",
        "results/explorer.html",
        "results/report.html",
        [f"{RESULTS}/{TABLES[name].file}" for name in PLAN.made if TABLES[name].target == "all"],
        f"{RESULTS}/passed.txt" if PLAN.checking else [],


rule build:
    input:
        f"{RESULTS}/resources.csv",


rule paper:
    input:
        "results/paper.pdf",
        "results/supplement.pdf",


rule report:
    input:
        "results/report.html",


rule explorer:
    input:
        "results/explorer.html",


# One experiment: its kernels, its figures and, where anything is measured or emulated for it, its checks
for _name in PLAN.experiments:

    rule:
        name:
            _name
        input:
            built(*PLAN.experiments[_name].variants) if PLAN.measuring else [],
            measured_for(_name) if PLAN.measuring else [],
            figures_of(_name),
            f"{RESULTS}/only/{_name}/passed.txt" if PLAN.checking else [],


# Any two variants side by side. There is no output: it prints every time (the table: rules/report.smk).
if PLAN.compared:

    rule compare:
        input:
            f"{COMPARED}.txt",
        log:
            "results/logs/compare.log",
        localrule: True
        shell:
            "cat {input} 2>&1 | tee {log}"


# This machine's measurements into data/MACHINE, from where they stand in on machines without a GPU: all tables that `all`
# and the other targets of the same command make, which need not be drawn for that.
rule archive:
    input:
        PLAN.to_archive,
    log:
        "results/logs/archive.log",
    localrule: True
    params:
        measured=RESULTS,
        data=f"data/{MACHINE}",
    shell:
        "python -m experiments.stages.archive --measured {params.measured} --data {params.data} 2>&1 | tee {log}"


# Snakemake itself says only that no rule makes a misspelt name.
for _word in TARGETS:
    _rules = [rule.name for rule in workflow.rules]
    if _word.isidentifier() and _word not in _rules:
        _near = difflib.get_close_matches(_word, _rules, n=3)
        _known = (
            f"nearest: {', '.join(_near)}"
            if _near
            else "allowed: those that snakemake --list names, and files"
        )
        sys.exit(f"error: unknown target {_word!r} in Snakefile, experiments/; {_known}")
