# Figures that set a machine's tables beside something else: the worklogs' own numbers, other machines, this build.


rule published_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/published.py",
        emulated=emulated(),
        published="paper/published.csv",
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/published.svg",
            category="2 Ladder",
            subcategory=ALL_KERNELS,
            caption="../report/published.rst",
            labels={"figure": "As published, and here"},
        ),
        pdf="results/figures/published.pdf",
    log:
        "results/logs/figures/published.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
    shell:
        "python -m analysis.figures.published --measured {params.measured} --variants {input.variants} {params.label}"
        " {params.emulated} --published {input.published} --out {output.svg} 2>&1 | tee {log}"


rule occupancy_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/counters.py",
        "analysis/figures/occupancy.py",
        emulated=emulated(),
        variants="results/variants.csv",
        resources=f"{RESULTS}/resources.csv",
    output:
        svg=report(
            "results/figures/occupancy.svg",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/occupancy.rst",
            labels={"figure": "Occupancy, and what limits it"},
        ),
        pdf="results/figures/occupancy.pdf",
    log:
        "results/logs/figures/occupancy.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
    shell:
        "python -m analysis.figures.occupancy --measured {params.measured} --variants {input.variants} --resources {input.resources}"
        " {params.label} {params.emulated} --out {output.svg} 2>&1 | tee {log}"


# With a single run the table has no rows, and the figure says so and is in no report.
rule machines_figure:
    input:
        measured(SOURCE),
        [measured(folder) for folder in OTHER_RUNS],
        ANALYSIS,
        "analysis/figures/machines.py",
        variants="results/variants.csv",
    output:
        svg=beside_others("results/figures/machines.svg", category="2 Ladder", label="figure"),
        pdf="results/figures/machines.pdf",
        table=beside_others("results/tables/machines.csv", category="6 Tables", label="table"),
    log:
        "results/logs/figures/machines.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        others=OTHER_RUNS,
    shell:
        "python -m analysis.figures.machines --measured {params.measured} --variants {input.variants} {params.label}"
        " --others {params.others} --table {output.table} --out {output.svg} 2>&1 | tee {log}"
