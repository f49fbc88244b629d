# Time, clock and power, one process an experiment and variant.


rule bench:
    input:
        lambda wildcards: built(wildcards.variant),
        lambda wildcards: f"experiments/{wildcards.experiment}.yaml",
        harness=f"{BUILD}/harness.cubin",
        checked=lambda wildcards: checked(wildcards.variant),
    output:
        bench=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}.csv",
        checks=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}.checks.csv",
        samples=f"{RESULTS}/parts/bench/{{experiment}}/{{variant}}.parquet",
    log:
        f"results/logs/{MACHINE}/bench/{{experiment}}/{{variant}}.log",
    conda:
        "../../env.yaml"
    resources:
        gpu=1,
    params:
        build=subpath(input.harness, parent=True),
        checked=lambda wildcards, input: (f"--checked {input.checked}" if input.checked else ""),
        step=f"--sizes-step {config['sizes_step']}" if config["sizes_step"] else "",
    shell:
        "python -m experiments.bench {wildcards.experiment} {wildcards.variant} --build-dir {params.build} {params.checked}"
        " {params.step} --bench {output.bench} --checks {output.checks} --samples {output.samples} 2>&1 | tee {log}"


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
        "python -m experiments.machine --machine {params.machine} --build-dir {params.build} --out {output} 2>&1 | tee {log}"
