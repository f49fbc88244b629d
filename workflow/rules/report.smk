# The paper (Typst) and the browsable report (Snakemake's own).


# What each step of the ladders changed, which counter moved, and how time followed.
rule steps_table:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/bounds.py",
        "analysis/tables/steps.py",
        "analysis/fill_docs.py",
        emulated=emulated(),
        variants="results/variants.csv",
        resources=f"{RESULTS}/resources.csv",
        bounds=f"{RESULTS}/bounds.csv",
        steps="paper/steps.yaml",
    output:
        report(
            "results/tables/steps.csv",
            category="6 Tables",
            subcategory=AS_CSV,
            caption="../report/steps.rst",
            labels={"table": "Steps: counters and time, before and after"},
        ),
    log:
        "results/logs/steps.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
    shell:
        "python -m analysis.tables.steps --measured {params.measured} --variants {input.variants} --resources {input.resources}"
        " --bounds {input.bounds} --steps {input.steps} {params.label} {params.emulated} --out {output} 2>&1 | tee {log}"


rule paper_pdf:
    input:
        "analysis/render.py",
        "paper/lib.typ",
        sorted(path.as_posix() for path in Path("paper/sections").glob("*.typ")),
        "paper/references.bib",
        "results/tables/summary.json",
        [f"results/tables/{name}.csv" for name in PAPER_TABLES],
        [f"results/tables/{name}.csv" for name in ("bounds", "machines", "predicted", "steps")],
        "results/tables/coverage.csv",
        "results/tables/claims.csv",
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


# The tables as pages that can be sorted and searched: all in one process.
rule report_pages:
    input:
        "analysis/tables/report_tables.py",
        "analysis/tables/sortable.py",
        tables=[f"results/tables/{name}.csv" for name in PAGES],
    output:
        [
            report(
                f"results/report/{name}.html",
                category=category,
                subcategory=AS_PAGES if category == "6 Tables" else None,
                caption=f"../report/{caption}.rst",
                labels={"table": title},
            )
            for name, (category, title, caption) in PAGES.items()
        ],
    log:
        "results/logs/report_pages.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        titled=[shlex.quote(f"results/tables/{name}.csv={title}") for name, (_, title, _) in PAGES.items()],
        out=subpath(output[0], parent=True),
    shell:
        "python -m analysis.tables.report_tables {params.titled} --out {params.out} 2>&1 | tee {log}"


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
