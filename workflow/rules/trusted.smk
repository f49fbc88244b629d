# Second opinions, explained: tables of what was measured to check the measuring. One that is not there has no rows, and
# coverage.csv says why.


rule trust_tables:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/trust.py",
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
        "python -m analysis.trust --measured {params.measured} --variants {input.variants} {params.label} {params.emulated}"
        " --out {params.out} 2>&1 | tee {log}"


rule protocols_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/protocols.py",
        "analysis/trust.py",
        offered("protocols"),
        emulated=emulated(),
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/protocols.svg",
            category="7 Second opinions",
            caption="../report/protocols.rst",
            labels={"figure": "Ways of timing"},
        ),
        pdf="results/figures/protocols.pdf",
    log:
        "results/logs/figures/protocols.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
        before=offered_before("protocols"),
    shell:
        "python -m analysis.protocols --measured {params.measured} --variants {input.variants} {params.label}"
        " {params.emulated} --out {output.svg} 2>&1 | tee {log}"
