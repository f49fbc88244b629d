# The toolchain, the catalogue, and kernels to PTX and cubins.


# Which compilers, driver and GPU there are. The file changes only when they do; everything that is built or measured has
# it as an input. The identity is read while the workflow is read, so a change is seen by the next run.
rule toolchain:
    output:
        "results/toolchain.json",
    log:
        "results/logs/toolchain.log",
    localrule: True
    params:
        identity=dict(PLAN.device.toolchain),
        nvcc=NVCC,
        arch=config["arch"],
        node=f"--node {shlex.quote(config['gpu_node'])}" if config["gpu_node"] else "",
    shell:
        "python -m experiments.stages.toolchain {params.nvcc} --arch {params.arch} {params.node} --out {output} 2>&1 | tee {log}"


rule catalogue:
    input:
        relative([catalogue.CATALOGUE]),
        "kernels/catalogue.py",
        "kernels/entries.py",
        "kernels/cost.py",
        sources_of(PLAN.catalogue.kernels),
    output:
        "results/variants.csv",
    log:
        "results/logs/catalogue.log",
    localrule: True
    shell:
        "python -m kernels.catalogue --out {output} 2>&1 | tee {log}"


# Drawing takes what was built and emulated as it is.
if not PLAN.drawing:

    # One job builds up to six kernels; of these, it leaves those as they are whose source and toolchain are unchanged.
    # NAME.cubin, NAME.ptx, NAME.sass and NAME.json lie next to the batch's rows of resources.csv, which is written last.
    rule build_kernels:
        input:
            lambda wildcards: sources_of(PLAN.builds[wildcards.batch]),
            toolchain="results/toolchain.json",
        output:
            f"{BUILD}/{{batch}}.csv",
        log:
            f"results/logs/build/{ARCH}/{{batch}}.log",
        # A job on a GPU waits for it.
        priority: 20
        params:
            kernels=lambda wildcards: PLAN.builds[wildcards.batch],
            # the catalogue's entries: their template values, threads and shared memory
            entries=lambda wildcards: [
                PLAN.catalogue[name].source_hash for name in PLAN.builds[wildcards.batch]
            ],
            nvcc=NVCC,
            arch=ARCH,
            folder=BUILD,
        shell:
            "python -m experiments.stages.build {params.kernels} --arch {params.arch} {params.nvcc}"
            " --toolchain {input.toolchain} --out-dir {params.folder} --rows {output} 2>&1 | tee {log}"


rule build_harness:
    input:
        lambda wildcards: relative(catalogue.included(Path(HARNESSES[wildcards.harness]))),
        source=lambda wildcards: HARNESSES[wildcards.harness],
        toolchain="results/toolchain.json",
    output:
        multiext(f"{BUILD}/{{harness}}", ".ptx", ".cubin"),
    log:
        f"results/logs/build/{ARCH}/{{harness}}.log",
    wildcard_constraints:
        harness="|".join(HARNESSES),
    # Each job on a GPU waits for it.
    priority: 50
    params:
        nvcc=NVCC,
        arch=ARCH,
        folder=BUILD,
    shell:
        "python -m experiments.stages.build --source {input.source} --arch {params.arch} {params.nvcc}"
        " --out-dir {params.folder} 2>&1 | tee {log}"
