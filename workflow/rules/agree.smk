# The GPU's results beside the emulator's, bit by bit.


rule agree:
    input:
        lambda wildcards: built(wildcards.variant),
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/parts/agree/{{variant}}.csv",
    log:
        f"results/logs/{MACHINE}/agree/{{variant}}.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        emulator=EMULATOR,
        build=subpath(input.harness, parent=True),
    shell:
        "python -m experiments.stages.compare_emulator {wildcards.variant} --build-dir {params.build} --out {output} 2>&1 | tee {log}"


rule agreement_table:
    input:
        [f"{RESULTS}/parts/agree/{variant}.csv" for variant in KERNELS],
    output:
        f"{RESULTS}/agreement.csv",
    log:
        f"results/logs/{MACHINE}/agreement.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.merge agreement {input} --out {output} 2>&1 | tee {log}"


# Not part of `all`: every kernel under compute-sanitizer takes some minutes.
rule sanitize:
    input:
        [built(variant) for variant in KERNELS],
        harness=f"{BUILD}/harness.cubin",
    output:
        table=f"{RESULTS}/sanitizer.csv",
        left_out=f"{RESULTS}/parts/sanitizer.left_out.txt",
    log:
        f"results/logs/{MACHINE}/sanitizer.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
        variants=" ".join(KERNELS),
    shell:
        "python -m experiments.stages.sanitize {params.variants} --build-dir {params.build} --out {output.table}"
        " --left-out {output.left_out} 2>&1 | tee {log}"
