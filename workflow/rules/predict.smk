# What the emulator predicts of the hardware's counters: no GPU is needed.


rule predict:
    input:
        lambda wildcards: built(wildcards.variant),
        "experiments/predict.py",
    output:
        f"{RESULTS}/parts/predict/{{variant}}-{{size}}.csv",
    log:
        f"results/logs/{MACHINE}/predict/{{variant}}-{{size}}.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
        build=BUILD,
    shell:
        "python -m experiments.predict {wildcards.variant} --size {wildcards.size} --build-dir {params.build}"
        " --out {output} 2>&1 | tee {log}"


rule predictions_table:
    input:
        [
            f"{RESULTS}/parts/predict/{variant}-{size}.csv"
            for variant, size in profiled(EXPERIMENTS.values())
            if variant in RUNNABLE
        ],
    output:
        f"{RESULTS}/predictions.csv",
    log:
        "results/logs/predictions.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.merge predictions {input} --out {output} 2>&1 | tee {log}"


# Whether ptxas merged neighbouring accesses of shared memory as the emulator foresees.
rule shared_widths:
    input:
        [multiext(f"{BUILD}/{kernel}", ".ptx", ".cubin") for kernel in KERNELS],
        command="experiments/widths.py",
    output:
        report(
            f"{RESULTS}/shared_widths.csv",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/shared_widths.rst",
            labels={"table": "Widths of shared-memory accesses"},
        ),
    log:
        f"results/logs/{MACHINE}/shared_widths.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
        build=subpath(input[0], parent=True),
        kernels=KERNELS,
    shell:
        "python -m experiments.widths {params.kernels} --build-dir {params.build} --out {output} 2>&1 | tee {log}"


rule predicted_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/predicted.py",
        variants="results/variants.csv",
        predictions=f"{RESULTS}/predictions.csv",
    output:
        svg=report(
            "results/figures/predicted.svg",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/predicted.rst",
            labels={"figure": "Predicted beside measured"},
        ),
        pdf="results/figures/predicted.pdf",
        table=report(
            "results/tables/predicted.csv",
            category="6 Tables",
            subcategory=AS_CSV,
            caption="../report/predicted.rst",
            labels={"table": "Counters, predicted beside measured"},
        ),
    log:
        "results/logs/figures/predicted.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
    shell:
        "python -m analysis.figures.predicted --measured {params.measured} --variants {input.variants} {params.label}"
        " --predictions {input.predictions} --table {output.table} --out {output.svg} 2>&1 | tee {log}"


# Drawn where the microbenchmark's table is there.
rule inter_warp_conflicts_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/inter_warp_conflicts.py",
        f"{SOURCE}/inter_warp_conflicts.csv",
        variants="results/variants.csv",
    output:
        svg=report(
            "results/figures/inter_warp_conflicts.svg",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/inter_warp_conflicts.rst",
            labels={"figure": "Shared-memory wavefronts between warps"},
        ),
        pdf="results/figures/inter_warp_conflicts.pdf",
    log:
        "results/logs/figures/inter_warp_conflicts.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
    shell:
        "python -m analysis.figures.inter_warp_conflicts --measured {params.measured} --variants {input.variants} {params.label}"
        " --out {output.svg} 2>&1 | tee {log}"
