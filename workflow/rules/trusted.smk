# Second opinions, explained: tables of what was measured to check the measuring. One that is not there has no rows, and
# coverage.csv says why.


rule trust_tables:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/tables/cross_validation.py",
        offered(*TRUST_TABLES),
        emulated=emulated(),
        variants="results/variants.csv",
    output:
        [trust_output(name) for name in TRUST_TABLES],
    log:
        "results/logs/trust_tables.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        out=subpath(output[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
        before=offered_before(*TRUST_TABLES),
    shell:
        "python -m analysis.tables.cross_validation --measured {params.measured} --variants {input.variants} {params.label} {params.emulated}"
        " --out {params.out} 2>&1 | tee {log}"


rule timing_methods_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/timing_methods.py",
        "analysis/tables/cross_validation.py",
        offered("timing_methods"),
        emulated=emulated(),
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/timing_methods.svg",
            category="7 Second opinions",
            caption="../report/timing_methods.rst",
            labels={"figure": "Ways of timing"},
        ),
        pdf="results/figures/timing_methods.pdf",
    log:
        "results/logs/figures/timing_methods.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
        before=offered_before("timing_methods"),
    shell:
        "python -m analysis.figures.timing_methods --measured {params.measured} --variants {input.variants} {params.label}"
        " {params.emulated} --out {output.svg} 2>&1 | tee {log}"
