# Each variant to PTX and a cubin, and a table of what the cubins need.


rule build_variant:
    input:
        variant_sources,
        toolchain="results/toolchain.json",
    output:
        multiext(f"{BUILD}/{{variant}}", ".cu", ".ptx", ".cubin", ".json"),
    log:
        f"results/logs/build/{ARCH}/{{variant}}.log",
    wildcard_constraints:
        variant="|".join(catalogue.kernels()),
    conda:
        "../../env.yaml"
    params:
        arch=ARCH,
        out=subpath(output[0], parent=True),
        # the catalogue's entry: its template values, threads and shared memory
        entry=lambda wildcards: catalogue.kernels()[wildcards.variant].source_hash,
        nvcc=nvcc_option(),
    shell:
        "python -m experiments.stages.build {wildcards.variant} --arch {params.arch} {params.nvcc} --out-dir {params.out} 2>&1 | tee {log}"


rule build_harness:
    input:
        source=lambda wildcards: HARNESSES[wildcards.harness],
        header="kernels/include/ptx.cuh",
        kernels=lambda wildcards: included(HARNESSES[wildcards.harness]),
        toolchain="results/toolchain.json",
    output:
        multiext(f"{BUILD}/{{harness}}", ".ptx", ".cubin"),
    log:
        f"results/logs/build/{ARCH}/{{harness}}.log",
    wildcard_constraints:
        harness="|".join(HARNESSES),
    priority: 50  # each job on a GPU waits for it
    conda:
        "../../env.yaml"
    params:
        arch=ARCH,
        out=subpath(output[0], parent=True),
        nvcc=nvcc_option(),
    shell:
        "python -m experiments.stages.build --source {input.source} --arch {params.arch} {params.nvcc} --out-dir {params.out} 2>&1 | tee {log}"


rule resources:
    input:
        expand(f"{BUILD}/{{variant}}.json", variant=KERNELS),
    output:
        f"{RESULTS}/resources.csv",
    log:
        "results/logs/resources.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.merge resources {input} --out {output} 2>&1 | tee {log}"
