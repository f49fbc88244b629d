# The toolchain, the catalogue, and each variant to PTX and a cubin.


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
        sorted({path for kernel in PLAN.catalogue.kernels.values() for path in relative(kernel.sources())}),
        PLAN.records,
        [path for folder in PLAN.archives for path in swept_in(folder)],
    output:
        "results/variants.csv",
    log:
        "results/logs/catalogue.log",
    localrule: True
    params:
        tuned=TUNED,
    shell:
        "python -m kernels.catalogue {params.tuned} --out {output} 2>&1 | tee {log}"


# Drawing takes what was built as it is.
if "build" not in PLAN.kept:

    rule build_variant:
        input:
            # the kernel's own file and the headers that it includes: editing another kernel rebuilds nothing
            lambda wildcards: relative(PLAN.catalogue.kernels[wildcards.kernel].sources()),
            lambda wildcards: [
                r
                for r in PLAN.records
                if r == str(PLAN.catalogue.record) and PLAN.catalogue.kernels[wildcards.kernel].tuned
            ],
            toolchain="results/toolchain.json",
        output:
            multiext(f"{BUILD}/{{kernel}}", ".cu", ".ptx", ".cubin", ".sass", ".json"),
        log:
            f"results/logs/build/{ARCH}/{{kernel}}.log",
        wildcard_constraints:
            kernel="|".join(PLAN.catalogue.kernels),
        priority: 20  # a job on a GPU waits for it
        params:
            job=JOB,
            arch=ARCH,
            nvcc=config["nvcc"],
            out=subpath(output[0], parent=True),
            # the catalogue's entry: its template values, threads and shared memory
            entry=lambda wildcards: PLAN.catalogue.kernels[wildcards.kernel].source_hash,
        shell:
            "python -m experiments.stages.build {wildcards.kernel} --job {params.job} --out-dir {params.out} 2>&1 | tee {log}"


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
    priority: 50  # each job on a GPU waits for it
    params:
        job=JOB,
        arch=ARCH,
        nvcc=config["nvcc"],
        out=subpath(output[0], parent=True),
    shell:
        "python -m experiments.stages.build --source {input.source} --job {params.job} --out-dir {params.out} 2>&1 | tee {log}"
