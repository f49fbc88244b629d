# The paper (Typst) and the browsable report (Snakemake's own).

FIGURES = [
    *CATEGORIES,
    *(name for e in EXPERIMENTS.values() for name in figure_names(e)),
]
REPORTED = [
    "results/paper.pdf",
    "results/tables/summary.json",
    f"{RESULTS}/resources.csv",
    *[f"results/figures/{name}.svg" for name in FIGURES],
]


rule paper_pdf:
    input:
        "analysis/render.py",
        "paper/references.bib",
        "results/tables/summary.json",
        [f"results/figures/{name}.pdf" for name in FIGURES],
        paper="paper/paper.typ",
    output:
        report(
            "results/paper.pdf",
            category="Paper",
            caption="../report/paper.rst",
            labels={"paper": "All of it, as PDF"},
        ),
    log:
        "results/logs/paper.log",
    conda:
        "../../env.yaml"
    shell:
        "python -m analysis.render --paper {input.paper} --tables results/tables --figures results/figures"
        " --out {output} 2>&1 | tee {log}"


rule report_html:
    input:
        REPORTED,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    conda:
        "../../env.yaml"
    params:
        # what a second Snakemake needs to see the same workflow
        config=lambda wildcards: " ".join(
            f"{key}={'null' if v is None else v}" for key, v in CONFIG_GIVEN.items()
        ),
    shell:
        "snakemake --report {output} --nolock --cores 1 {REPORTED} --config {params.config} 2>&1 | tee {log}"
