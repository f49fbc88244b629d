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
        "python -m experiments.profile {wildcards.variant} --size {wildcards.size} --build-dir {params.build} {params.checked}"
        " --out {output.counters} --left-out {output.left_out} 2>&1 | tee {log}"


# Not part of `all`: two minutes of microbenchmarks, from which the emulator's rules come.
rule banks:
    input:
        f"{BUILD}/banks.cubin",
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/banks.csv",
    log:
        f"results/logs/{MACHINE}/banks.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
    shell:
        "python -m experiments.banks --build-dir {params.build} --out {output} 2>&1 | tee {log}"


# Not part of `all` either: what stands behind the excess of wavefronts that no rule within a warp gives.
rule between_warps:
    input:
        "experiments/between_warps.py",
        multiext(f"{BUILD}/between_warps", ".cubin", ".ptx"),
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/between_warps.csv",
    log:
        f"results/logs/{MACHINE}/between_warps.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        emulator=EMULATOR,
        build=subpath(input.harness, parent=True),
    shell:
        "python -m experiments.between_warps --build-dir {params.build} --out {output} 2>&1 | tee {log}"
