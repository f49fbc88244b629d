# Time, clock and power, one process an experiment, variant and clock regime.


# Clocks are locked only where that was asked for; then it is tried at the start of a run, and not after ten minutes of it.
rule clocks:
    output:
        f"{RESULTS}/parts/locked.left_out.txt",
    log:
        f"results/logs/{MACHINE}/clocks.log",
    priority: 100
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        lock=f"--lock {clock_options()}" if config["lock_clocks"] else "",
    shell:
        "python -m experiments.gpu.clocks {params.lock} --left-out {output} 2>&1 | tee {log}"


rule bench:
    input:
        lambda wildcards: built(wildcards.variant),
        lambda wildcards: f"experiments/{wildcards.experiment}.yaml",
        lambda wildcards: rules.clocks.output if wildcards.regime == "locked" else [],
        harness=f"{BUILD}/harness.cubin",
        checked=lambda wildcards: checked(wildcards.variant),
    output:
        bench=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}-{{regime}}.csv",
        checks=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}-{{regime}}.checks.csv",
        samples=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}-{{regime}}.parquet",
        left_out=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}-{{regime}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/bench/{{experiment}}/{{variant}}-{{regime}}.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
        checked=lambda wildcards, input: (f"--checked {input.checked}" if input.checked else ""),
        step=f"--sizes-step {config['sizes_step']}" if config["sizes_step"] else "",
        regime=lambda wildcards: (f"--regime locked {clock_options()}" if wildcards.regime == "locked" else ""),
    shell:
        "python -m experiments.stages.bench {wildcards.experiment} {wildcards.variant} --build-dir {params.build} {params.checked}"
        " {params.step} {params.regime} --bench {output.bench} --checks {output.checks} --samples {output.samples}"
        " --left-out {output.left_out} 2>&1 | tee {log}"


rule machine:
    input:
        multiext(f"{BUILD}/ceilings", ".cubin", ".ptx"),
        harness=f"{BUILD}/harness.cubin",
    output:
        f"{RESULTS}/parts/machine.json",
    log:
        f"results/logs/{MACHINE}/machine.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
        machine=MACHINE,
    shell:
        "python -m experiments.stages.machine --machine {params.machine} --build-dir {params.build} --out {output} 2>&1 | tee {log}"
