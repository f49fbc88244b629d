# The least cycles that each resource of a GPU needs, from counts alone: no GPU is needed.


rule bounds:
    input:
        "experiments/bounds.py",
        "experiments/predict.py",
        ptx=f"{BUILD}/{{variant}}.ptx",
        cubin=f"{BUILD}/{{variant}}.cubin",
    output:
        f"{RESULTS}/parts/bounds/{{variant}}-{{size}}.csv",
    log:
        f"results/logs/{MACHINE}/bounds/{{variant}}-{{size}}.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
        build=subpath(input.ptx, parent=True),
    shell:
        "python -m experiments.bounds {wildcards.variant} --size {wildcards.size} --build-dir {params.build}"
        " --out {output} 2>&1 | tee {log}"


rule bounds_table:
    input:
        [
            f"{RESULTS}/parts/bounds/{variant}-{size}.csv"
            for variant, size in profiled(EXPERIMENTS.values())
            if variant in KERNELS
        ],
    output:
        f"{RESULTS}/bounds.csv",
    log:
        "results/logs/bounds.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.merge bounds {input} --out {output} 2>&1 | tee {log}"


rule bounds_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/bounds.py",
        variants="results/variants.csv",
        bounds=f"{RESULTS}/bounds.csv",
    output:
        svg=report(
            "results/figures/bounds.svg",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/bounds.rst",
            labels={"figure": "Bounds by resource"},
        ),
        pdf="results/figures/bounds.pdf",
        table=report(
            "results/tables/bounds.csv",
            category="6 Tables",
            subcategory=AS_CSV,
            caption="../report/bounds.rst",
            labels={"table": "Least cycles by resource"},
        ),
    log:
        "results/logs/figures/bounds.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
    shell:
        "python -m analysis.figures.bounds --measured {params.measured} --variants {input.variants} {params.label}"
        " --bounds {input.bounds} --table {output.table} --out {output.svg} 2>&1 | tee {log}"
