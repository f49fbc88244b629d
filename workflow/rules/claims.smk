# What the worklogs claim, and what of it holds: paper/claims.yaml over the tables of this run and of every archive.

CLAIMS_CODE = [
    "analysis/autotune.py",
    "analysis/bounds.py",
    "analysis/data.py",
    "contracts/metrics.yaml",
    *(f"analysis/{name}.py" for name in ["claims", "claim_files", "verdicts", "expressions", "estimates"]),
    *(f"analysis/{name}.py" for name in ["vocabulary", "vocabulary_times", "vocabulary_counts", "machine_tables"]),
]
CLAIMS_FILES = {
    "claims": "paper/claims.yaml",
    "published": "paper/published.csv",
    "sources": "paper/sources.yaml",
    "on_paper": "results/on_paper.csv",
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


rule on_paper:
    input:
        "experiments/on_paper.py",
        "kernels/occupancy.py",
        cases="paper/on_paper.yaml",
    output:
        "results/on_paper.csv",
    log:
        "results/logs/on_paper.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
    shell:
        "python -m experiments.on_paper --cases {input.cases} --out {output} 2>&1 | tee {log}"


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
        "python -m analysis.claims --claims {input.claims} --published {input.published} --sources {input.sources}"
        " --on-paper {input.on_paper} --variants {input.variants} {params.machines} --out {output} 2>&1 | tee {log}"


rule claims_of_worklog:
    input:
        "analysis/sortable.py",
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
        "python -m analysis.sortable --table {input.table} --only worklog={wildcards.worklog} --title {params.title}"
        " --columns verdict claim theirs ours unit remark why ours_low ours_high gpu about section lines id machine"
        " --out {output} 2>&1 | tee {log}"


rule claims_figure:
    input:
        ANALYSIS,
        "analysis/claims_figure.py",
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
        "python -m analysis.claims_figure --table {input.table} --sources {input.sources} --out {output.svg} 2>&1 | tee {log}"


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
        "python -m analysis.claims --claims {input.claims} --published {input.published} --sources {input.sources}"
        " --on-paper {input.on_paper} --variants {input.variants} {params.machines} --check 2>&1 | tee {log}"
