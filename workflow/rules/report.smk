# The paper (Typst), the explorer and the browsable report (Snakemake's own).


BANK_PICTURES = [f"results/figures/banks_{name}.{suffix}" for name in PICTURES for suffix in ("svg", "pdf", "json")]


rule paper_pdf:
    input:
        "analysis/render.py",
        sorted(path.as_posix() for path in Path("paper").rglob("*.typ")),
        "paper/references.bib",
        ["kernels/sgemm/naive.cu", "kernels/sgemm/coalesced.cu"],  # the step that the paper shows
        rules.report_tables.output,
        rules.claims_table.output,
        rules.findings.output,
        rules.figures_of_timings.output,
        rules.figures_of_counters.output,
        rules.figures_of_studies.output,
        rules.figure_of_tiles.output,
        figures_of_kind("sizes"),
    output:
        report("results/paper.pdf", category="Paper", caption="../report/paper.rst"),
        "results/supplement.pdf",  # a third of the report, which links to it instead
    log:
        "results/logs/paper.log",
    shell:
        "python -m analysis.render paper/paper.typ paper/supplement.typ --tables results/tables --figures results/figures"
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
        BANK_PICTURES,
    output:
        "results/explorer.html",
    log:
        "results/logs/explorer.log",
    params:
        shown=f"{SHOWN} {HERE}",
        archives=PLAN.archives,
    shell:
        "python -m analysis.explorer {params.shown} --archives {params.archives} --tables results/tables"
        " --figures results/figures --out {output} 2>&1 | tee {log}"


# Two variants side by side: their counters or, where there are none, the emulator's predictions.
if PLAN.compared:
    _pair = PLAN.compared.variants
    COMPARED = f"results/tables/compare_{'_'.join(_pair)}"

    rule compared:
        input:
            tables_of(PLAN.folder_of("compare")),
            [
                f"{RESULTS}/parts/emulate/{name}/{table}.csv"
                for name in _pair
                if name in PLAN.runnable
                for table in ("predictions", "bounds")
            ],
            [f"{BUILD}/{name}.json" for name in _pair if name in PLAN.kernels],
            CODE,
            "results/variants.csv",
        output:
            report(f"{COMPARED}.csv", category="Tables", caption="../report/compare.rst"),
            f"{COMPARED}.txt",
        log:
            "results/logs/compared.log",
        localrule: True
        params:
            a=_pair[0],
            b=_pair[1],
            results=PLAN.folder_of("compare"),
            emulated=f"{RESULTS}/parts/emulate",
            built=BUILD,
        shell:
            "python -m analysis.compare --a {params.a} --b {params.b} --results {params.results}"
            " --catalogue results/variants.csv --emulated {params.emulated} --built {params.built} --out {output[0]}"
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
