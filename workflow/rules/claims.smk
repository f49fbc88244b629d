# What the worklogs claim, and what of it holds: paper/claims.yaml over the tables of this run and of every archive.

CLAIMS_CODE = [
    "analysis/figures/autotune.py",
    "analysis/figures/bounds.py",
    "analysis/data.py",
    "contracts/metrics.yaml",
    sorted(path.as_posix() for path in Path("analysis/claims").glob("*.py")),
]
CLAIMS_FILES = {
    "claims": "paper/claims.yaml",
    "published": "paper/published.csv",
    "sources": "paper/sources.yaml",
    "analytic": "results/analytic.csv",
    "variants": "results/variants.csv",
}
# This run's tables, if it measured; and every archive's, first that which stands in where it did not
OWN_TABLES = (
    [] if ARCHIVED else [*measured(RESULTS), *(f"{RESULTS}/{n}.csv" for n in ("resources", "predictions", "bounds"))]
)
JUDGED_ARCHIVES = list(
    dict.fromkeys(
        [
            *([SOURCE] if ARCHIVED else []),
            *(path.parent.as_posix() for path in sorted(Path("data").glob("*/provenance.json"))),
        ]
    )
)
ARCHIVED_TABLES = [
    path.as_posix()
    for folder in JUDGED_ARCHIVES
    for path in sorted(Path(folder).glob("*.[cj]s*"))
    if path.name != "verdicts.csv"
]
MACHINES_OPTIONS = f"{'' if ARCHIVED else f'--measured {RESULTS}'} --archives {' '.join(JUDGED_ARCHIVES)}".strip()


rule analytic:
    input:
        "experiments/stages/analytic.py",
        "kernels/occupancy.py",
        cases="paper/analytic.yaml",
    output:
        "results/analytic.csv",
    log:
        "results/logs/analytic.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
    shell:
        "python -m experiments.stages.analytic --cases {input.cases} --out {output} 2>&1 | tee {log}"


rule claims_table:
    input:
        OWN_TABLES,
        ARCHIVED_TABLES,
        CLAIMS_CODE,
        offered(*OFFERED) if OWN_TABLES else [],
        **CLAIMS_FILES,
    output:
        report(
            "results/tables/claims.csv",
            category="6 Tables",
            subcategory=AS_CSV,
            caption="../report/claims.rst",
            labels={"table": "Claims and verdicts"},
        ),
    log:
        "results/logs/claims_table.log",
    conda:
        "../../env.yaml"
    params:
        machines=MACHINES_OPTIONS,
        before=offered_before(*OFFERED),
    shell:
        "python -m analysis.claims.judge --claims {input.claims} --published {input.published} --sources {input.sources}"
        " --analytic {input.analytic} --variants {input.variants} {params.machines} --out {output} 2>&1 | tee {log}"


rule claims_of_worklog:
    input:
        "analysis/tables/sortable.py",
        table="results/tables/claims.csv",
    output:
        report(
            "results/tables/claims_{worklog}.html",
            category="8 Claims",
            caption="../report/claims.rst",
            labels=lambda wildcards: {"worklog": wildcards.worklog, "table": WORKLOGS[wildcards.worklog]["title"]},
        ),
    log:
        "results/logs/claims_{worklog}.log",
    wildcard_constraints:
        worklog="[A-Z]",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        title=lambda wildcards: shlex.quote(f"Worklog {wildcards.worklog}: {WORKLOGS[wildcards.worklog]['title']}"),
    shell:
        "python -m analysis.tables.sortable --table {input.table} --only worklog={wildcards.worklog} --title {params.title}"
        " --columns verdict claim theirs ours unit remark why ours_low ours_high gpu about section lines id machine"
        " --out {output} 2>&1 | tee {log}"


rule claims_figure:
    input:
        ANALYSIS,
        "analysis/figures/verdict_counts.py",
        table="results/tables/claims.csv",
        sources="paper/sources.yaml",
    output:
        svg=report(
            "results/figures/claims.svg",
            category="8 Claims",
            caption="../report/claims_figure.rst",
            labels={"worklog": "all", "table": "Verdicts, counted"},
        ),
        pdf="results/figures/claims.pdf",
    log:
        "results/logs/figures/claims.log",
    conda:
        "../../env.yaml"
    shell:
        "python -m analysis.figures.verdict_counts --table {input.table} --sources {input.sources} --out {output.svg} 2>&1 | tee {log}"


# Prints every time, and fails where a verdict on an archive is not the one that is recorded beside it. `all` makes the
# table and does not fail by it.
rule claims:
    input:
        CLAIMS_CODE,
        "results/tables/claims.csv",
        [f"results/tables/claims_{worklog}.html" for worklog in WORKLOGS],
        "results/figures/claims.svg",
        **CLAIMS_FILES,
    log:
        "results/logs/claims.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        machines=MACHINES_OPTIONS,
    shell:
        "python -m analysis.claims.judge --claims {input.claims} --published {input.published} --sources {input.sources}"
        " --analytic {input.analytic} --variants {input.variants} {params.machines} --check 2>&1 | tee {log}"
