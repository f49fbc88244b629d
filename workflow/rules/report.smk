# The paper (Typst) and the browsable report (Snakemake's own).


rule paper_pdf:
    input:
        "analysis/render.py",
        "paper/references.bib",
        "results/tables/summary.json",
        "results/tables/coverage.csv",
        [f"results/tables/{name}.csv" for name in TRUST_TABLES],
        [f"results/figures/{name}.pdf" for name in FIGURES],
        [f"results/figures/banks_{name}.json" for name in BANK_PICTURES],
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
    conda:
        "../../env.yaml"
    params:
        pictures=" ".join(BANK_PICTURES),
    shell:
        "python -m analysis.render --paper {input.paper} --tables results/tables --figures results/figures"
        " --bank-pictures {params.pictures} --out {output} 2>&1 | tee {log}"


rule report_html:
    input:
        REPORTED,
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        config=CONFIG_OPTIONS,
    shell:
        "snakemake --report {output} --nolock --cores 1 {input} --config {params.config} 2>&1 | tee {log}"
