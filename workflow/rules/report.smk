# The paper (Typst) and the browsable report (Snakemake's own).


PAGES = [name for name, one in REPORT_TABLES.items() if one.page]


rule paper_pdf:
    input:
        "analysis/render.py",
        "paper/lib.typ",
        sorted(path.as_posix() for path in Path("paper/sections").glob("*.typ")),
        "paper/references.bib",
        [f"results/tables/{one.file}" for one in REPORT_TABLES.values()],
        [f"results/figures/{name}.pdf" for name in OUTPUTS],
        [f"results/figures/banks_{name}.{suffix}" for name in PICTURES for suffix in ("pdf", "json")],
        paper="paper/paper.typ",
    output:
        report(
            "results/paper.pdf",
            category="1 Paper",
            caption="../report/paper.rst",
            labels={"paper": "All of it, as PDF"},
        ),
    log:
        "results/logs/paper.log",
    params:
        pictures=list(PICTURES),
    shell:
        "python -m analysis.render --paper {input.paper} --tables results/tables --figures results/figures"
        " --bank-pictures {params.pictures} --out {output} 2>&1 | tee {log}"


# All report tables as pages that can be sorted and searched.
rule report_pages:
    input:
        [f"results/tables/{REPORT_TABLES[name].file}" for name in PAGES],
        "analysis/pages.py",
    output:
        [
            in_report(
                f"results/report/{name}.html",
                REPORT_TABLES[name],
                {"table": REPORT_TABLES[name].title},
                subcategory="To sort and search",
            )
            for name in PAGES
        ],
    log:
        "results/logs/pages.log",
    params:
        names=PAGES,
    shell:
        "python -m analysis.pages --tables results/tables --out results/report {params.names} 2>&1 | tee {log}"


# A second Snakemake makes the report, since `snakemake --report FILE --report-after-run` makes none after a run that
# failed: here failed checks are in the report, and only then end the run (rule `passed`).
rule report_html:
    input:
        "results/paper.pdf",
        [f"results/tables/{one.file}" for one in REPORT_TABLES.values()],
        [f"results/figures/{name}.svg" for name in [*OUTPUTS, *(f"banks_{name}" for name in PICTURES)]],
        [f"results/report/{name}.html" for name in PAGES],
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    params:
        config=[f"{key}={json.dumps(value)}" for key, value in sorted(config.items())],
    shell:
        "snakemake --report {output} --nolock --cores 1 {input} --config {params.config:q} 2>&1 | tee {log}"
