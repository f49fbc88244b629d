# Which compilers, driver and GPU there are. The file changes only when they do; everything that is built or measured
# has it as an input. The identity is read while the workflow is read, so a change is seen by the next run.


rule toolchain:
    output:
        "results/toolchain.json",
    log:
        "results/logs/toolchain.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        identity=TOOLCHAIN,
        nvcc=nvcc_option(),
        arch=config["arch"],
        node=f"--node '{config['gpu_node']}'" if config["gpu_node"] else "",
    shell:
        "python -m experiments.stages.toolchain {params.nvcc} --arch {params.arch} {params.node} --out {output} 2>&1 | tee {log}"


rule catalogue:
    input:
        catalogue.CATALOGUE.relative_to(Path.cwd()).as_posix(),
        "kernels/catalogue.py",
        sorted({p.relative_to(Path.cwd()).as_posix() for v in catalogue.kernels().values() for p in v.sources()}),
        "results/tuned.json" if TUNED else [],
    output:
        "results/variants.csv",
    log:
        "results/logs/catalogue.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m kernels.catalogue --out {output} 2>&1 | tee {log}"
