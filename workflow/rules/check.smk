# Correctness: on the emulator always, on the GPU where there is one. A failure is a row, not a failed job: `verdict` ends
# the run non-zero, after the report.


rule check_emulated:
    input:
        lambda wildcards: built(wildcards.variant),
    output:
        f"{RESULTS}/parts/check/{{variant}}.ptxsim.csv",
    log:
        f"results/logs/{MACHINE}/check/{{variant}}.ptxsim.log",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
        build=BUILD,
    shell:
        "python -m experiments.stages.check {wildcards.variant} --device ptxsim --build-dir {params.build} --out {output}"
        " 2>&1 | tee {log}"


if MEASURING:

    rule check:
        input:
            lambda wildcards: built(wildcards.variant),
            harness=f"{BUILD}/harness.cubin",
        output:
            f"{RESULTS}/parts/check/{{variant}}.csv",
        log:
            f"results/logs/{MACHINE}/check/{{variant}}.log",
        conda:
            "../../env.yaml"
        resources:
            gpu=1,
        params:
            build=subpath(input.harness, parent=True),
        shell:
            "python -m experiments.stages.check {wildcards.variant} --build-dir {params.build} --out {output} 2>&1 | tee {log}"


rule emulated_checks:
    input:
        lambda wildcards: emulated_parts(wildcards.scope),
    output:
        f"{RESULTS}{{scope}}/emulated-checks.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/emulated-checks.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.merge checks {input} --out {output} 2>&1 | tee {log}"


rule verdict:
    input:
        # the GPU's checks hold the emulator's too
        checks=f"{RESULTS}{{scope}}/{'checks' if MEASURING else 'emulated-checks'}.csv",
        last=lambda wildcards: (
            experiment_outputs(wildcards.scope.rpartition("/")[2])
            if wildcards.scope
            else ["results/paper.pdf", "results/report.html"]
        ),
    output:
        f"{RESULTS}{{scope}}/verdict.txt",
    log:
        f"results/logs/{MACHINE}{{scope}}/verdict.log",
    localrule: True
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.stages.require_passed --checks {input.checks} --out {output} 2>&1 | tee {log}"
