# Tables, claims and findings; the paper (Typst), the explorer and the browsable report (Snakemake's own).


rule report_tables:
    input:
        RECORDED,
        ARCHIVED,
        STEPS,
        CODE,
        sorted(path.as_posix() for path in Path("analysis/tables").glob("*.py")),
        sorted(path.as_posix() for path in Path("paper/worklogs").glob("*/published.csv")),
        "results/variants.csv",
    output:
        reported("results/tables/timings.csv", "Tables", "Every timing"),
        reported("results/tables/llm_shapes.csv", "Tables", "Layers of language models"),
        reported("results/tables/kernels.csv", "Tables", "Kernels, builds and checks"),
        reported("results/tables/steps.csv", "Tables", "Each step with its counters"),
        reported(
            "results/tables/counters.csv",
            "Tables",
            "Counters of each kernel",
            caption="counters_table",
        ),
        reported("results/tables/emulator.csv", "Tables", "Predicted and measured counters"),
        reported("results/tables/published.csv", "Tables", "Published numbers beside ours"),
        reported("results/tables/gpus.csv", "Tables", "GPUs compared"),
        reported(
            "results/tables/spread.csv",
            "Tables",
            "Spread between GPUs of one model",
            caption="gpus",
        ),
        reported("results/tables/coverage.csv", "Tables", "What was measured and what left out"),
        reported("results/tables/api_calls.csv", "Tables", "A program on host and GPU"),
        "results/tables/summary.json",
    log:
        "results/logs/tables.log",
    params:
        shown=f"{SHOWN} {HERE}",
        archives=PLAN.archives,
    shell:
        "python -m analysis tabulate {params.shown} --archives {params.archives} --out results/tables 2>&1 | tee {log}"


# What the worklogs claim, and what of it holds; and the findings of our own.
CLAIMS = sorted(
    path.as_posix() for path in Path("paper").rglob("*") if path.suffix in (".yaml", ".csv")
)
OWN_RESULTS = f"--results {PLAN.source}" if not PLAN.archived else ""


rule claims_table:
    input:
        MEASURED,
        ARCHIVED,
        CLAIMS,
        CODE,
        "results/variants.csv",
        "results/analytic.csv",
    output:
        reported("results/tables/claims.csv", "Tables", "Claims and verdicts"),
    log:
        "results/logs/claims_table.log",
    params:
        own=OWN_RESULTS,
        archives=PLAN.archives,
    shell:
        "python -m analysis claims {params.own} --archives {params.archives}"
        " --analytic results/analytic.csv --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule claims:
    """What the worklogs claim and what holds; fails where a verdict changed."""
    input:
        "results/tables/claims.csv",
    log:
        "results/logs/claims.log",
    localrule: True
    params:
        own=OWN_RESULTS,
        archives=PLAN.archives,
    shell:
        "python -m analysis claims {params.own} --archives {params.archives}"
        " --analytic results/analytic.csv --check 2>&1 | tee {log}"


rule findings:
    input:
        RECORDED,
        ARCHIVED,
        CLAIMS,
        CODE,
        "results/variants.csv",
    output:
        "results/tables/findings.json",
    log:
        "results/logs/findings.log",
    params:
        own=f"{OWN_RESULTS} {HERE}",
        archives=PLAN.archives,
    shell:
        "python -m analysis findings {params.own} --archives {params.archives}"
        " --out {output} 2>&1 | tee {log}"


# README's tables and its findings are filled in, of the archives alone, and its figure is made of the ladder's.
rule readme:
    """README's tables, findings and figure, of the archives."""
    input:
        findings="results/tables/findings.json",
        ladder="results/figures/ladder_sgemm_ladder.svg",
    log:
        "results/logs/readme.log",
    localrule: True
    params:
        archives=PLAN.archives,
    shell:
        "python -m analysis readme README.md --findings {input.findings} --ladder {input.ladder}"
        " --archives {params.archives} 2>&1 | tee {log}"


BANK_PICTURES = [f"results/figures/banks_{name}.json" for name in PICTURES]


rule paper_pdf:
    input:
        "analysis/render.py",
        sorted(path.as_posix() for path in Path("paper").rglob("*.typ")),
        "paper/references.bib",
        # The paper shows this step.
        ["kernels/sgemm/naive.cu", "kernels/sgemm/coalesced.cu"],
        rules.report_tables.output,
        rules.claims_table.output,
        rules.findings.output,
        rules.figures_of_timings.output,
        rules.figures_of_counters.output,
        rules.figures_of_studies.output,
        figures_of_kind("sizes"),
        figures_of_kind("counters"),
    output:
        reported("results/paper.pdf", "Paper", "Paper"),
        # The report links to it, for it would be a third of the report.
        "results/supplement.pdf",
    log:
        "results/logs/paper.log",
    shell:
        "python -m analysis render paper/paper.typ paper/supplement.typ --tables results/tables --figures results/figures"
        " --out results 2>&1 | tee {log}"


rule explorer_html:
    input:
        RECORDED,
        ARCHIVED,
        CODE,
        sorted(path.as_posix() for path in Path("analysis/explorer").iterdir() if path.is_file()),
        "results/variants.csv",
        rules.report_tables.output,
        rules.claims_table.output,
        rules.findings.output,
        rules.figures_of_timings.output,
        rules.figures_of_counters.output,
        rules.figures_of_studies.output,
        BANK_PICTURES,
        sorted(path.as_posix() for path in Path("docs/kernels").glob("*.md")),
        lenses=LENSES,
    output:
        "results/explorer.html",
    log:
        "results/logs/explorer.log",
    params:
        shown=f"{SHOWN} {HERE}",
        archives=PLAN.archives,
    shell:
        "python -m analysis explorer {params.shown} --archives {params.archives} --tables results/tables"
        " --figures results/figures --lens {input.lenses} --out {output} 2>&1 | tee {log}"


# What .github/workflows/pages.yml publishes.
rule site:
    """Explorer, paper and supplement with a first page, into results/site, every link checked."""
    input:
        "analysis/site.py",
        "results/explorer.html",
        "results/paper.pdf",
        "results/supplement.pdf",
    output:
        "results/site/index.html",
    log:
        "results/logs/site.log",
    localrule: True
    shell:
        "python -m analysis site --results results --out results/site 2>&1 | tee {log}"


# Two variants side by side: their counters or, where there are none, the emulator's predictions.
if PLAN.compared:
    _pair = PLAN.compared.variants
    COMPARED = f"results/tables/compare_{'_'.join(_pair)}"

    rule compared:
        input:
            tables_of(PLAN.folder_of("compare")),
            emulated(_pair, "predictions.csv"),
            emulated(_pair, "bounds.csv"),
            built(*_pair),
            CODE,
            "results/variants.csv",
        output:
            reported(f"{COMPARED}.csv", "Tables", "Two variants side by side", caption="compare"),
            f"{COMPARED}.txt",
        log:
            "results/logs/compared.log",
        localrule: True
        params:
            a=_pair[0],
            b=_pair[1],
            results=PLAN.folder_of("compare"),
            emulated=[
                f"{PARTS}/emulate/{batch}"
                for batch, names in PLAN.emulations.items()
                if {*_pair} & {*names}
            ],
            built=BUILD,
        shell:
            "python -m analysis compare --a {params.a} --b {params.b} --results {params.results}"
            " --emulated {params.emulated} --built {params.built} --out {output[0]}"
            " > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# A second Snakemake makes the report, since `snakemake --report FILE --report-after-run` makes none after a run that
# failed: here failed checks are in the report, and only then end the run (rule `passed`).
rule report_html:
    input:
        "results/paper.pdf",
        "results/supplement.pdf",
        rules.report_tables.output,
        rules.claims_table.output,
        rules.figures_of_timings.output,
        rules.figures_of_counters.output,
        rules.figures_of_studies.output,
        [path for kind in ("ladder", "sizes", "counters") for path in figures_of_kind(kind)],
        f"{COMPARED}.csv" if PLAN.compared else [],
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    params:
        config=[f"{key}={json.dumps(value)}" for key, value in sorted(config.items())],
    shell:
        "snakemake --report {output} --nolock --cores 1 {input} --config {params.config:q} 2>&1 | tee {log}"


# There only when every check passed: after figures, paper and report, so that a failed check is in them.
rule passed:
    input:
        # the GPU's checks hold the emulator's too
        checks=f"{RESULTS}{{scope}}/{'checks' if PLAN.measuring else 'emulated-checks'}.csv",
        last=lambda wildcards: (
            figures_of(wildcards.scope.rpartition("/")[2])
            if wildcards.scope
            else ["results/paper.pdf", "results/report.html"]
        ),
    output:
        f"{RESULTS}{{scope}}/passed.txt",
    log:
        f"results/logs/{MACHINE}{{scope}}/passed.log",
    localrule: True
    shell:
        "python -m experiments.stages.tables passed --checks {input.checks} --out {output} 2>&1 | tee {log}"
