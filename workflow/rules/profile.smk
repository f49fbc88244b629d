# Hardware counters through Nsight Compute. Without it, or without the permission, the table is empty and
# left_out.txt says why.


rule profile:
    input:
        lambda wildcards: built(wildcards.variant),
        harness=f"{BUILD}/harness.cubin",
        checked=lambda wildcards: checked(wildcards.variant),
    output:
        counters=f"{RESULTS}/parts/profile/{{variant}}-{{size}}.csv",
        left_out=f"{RESULTS}/parts/profile/{{variant}}-{{size}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/profile/{{variant}}-{{size}}.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
        checked=lambda wildcards, input: (f"--checked {input.checked}" if input.checked else ""),
    shell:
        "python -m experiments.stages.profile {wildcards.variant} --size {wildcards.size} --build-dir {params.build} {params.checked}"
        " --out {output.counters} --left-out {output.left_out} 2>&1 | tee {log}"


# Not part of `all`: two minutes of microbenchmarks, from which the emulator's rules come.
rule banks:
    input:
        f"{BUILD}/smem_microbench.cubin",
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/smem_microbench.csv",
    log:
        f"results/logs/{MACHINE}/smem_microbench.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
    shell:
        "python -m experiments.studies.smem_microbench.measure --build-dir {params.build} --out {output} 2>&1 | tee {log}"


# Not part of `all` either: what stands behind the excess of wavefronts that no rule within a warp gives.
rule inter_warp_conflicts:
    input:
        "experiments/studies/inter_warp_conflicts/measure.py",
        multiext(f"{BUILD}/inter_warp_conflicts", ".cubin", ".ptx"),
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/inter_warp_conflicts.csv",
    log:
        f"results/logs/{MACHINE}/inter_warp_conflicts.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        emulator=EMULATOR,
        build=subpath(input.harness, parent=True),
    shell:
        "python -m experiments.studies.inter_warp_conflicts.measure --build-dir {params.build} --out {output} 2>&1 | tee {log}"
