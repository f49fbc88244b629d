# What the emulator predicts of the hardware's counters: no GPU is needed.


rule predict:
    input:
        "experiments/predict.py",
        emulator=EMULATOR,
        ptx=f"{BUILD}/{{variant}}.ptx",
    output:
        f"{RESULTS}/parts/predict/{{variant}}-{{size}}.csv",
    log:
        f"results/logs/{MACHINE}/predict/{{variant}}-{{size}}.log",
    conda:
        "../../env.yaml"
    params:
        build=subpath(input.ptx, parent=True),
    shell:
        "python -m experiments.predict {wildcards.variant} --size {wildcards.size} --build-dir {params.build}"
        " --out {output} 2>&1 | tee {log}"


rule predictions_table:
    input:
        [
            f"{RESULTS}/parts/predict/{variant}-{size}.csv"
            for variant, size in profiled(EXPERIMENTS.values())
            if variant in KERNELS
        ],
    output:
        f"{RESULTS}/predictions.csv",
    log:
        "results/logs/predictions.log",
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.merge predictions {input} --out {output} 2>&1 | tee {log}"


rule predicted_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/predicted.py",
        variants="results/variants.csv",
        predictions=f"{RESULTS}/predictions.csv",
    output:
        svg=report(
            "results/figures/predicted.svg",
            category="4 Counters",
            caption="../report/predicted.rst",
            labels={"figure": "Predicted beside measured"},
        ),
        pdf="results/figures/predicted.pdf",
    log:
        "results/logs/figures/predicted.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
    shell:
        "python -m analysis.predicted --measured {params.measured} --variants {input.variants} {params.label}"
        " --predictions {input.predictions} --out {output.svg} 2>&1 | tee {log}"
