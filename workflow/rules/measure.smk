# What needs the GPU: one process a job, each holding a session while its kernels run. Without a GPU, or where a run only
# draws, these rules are not there, so that what they made is plain input. Their jobs come first (priority), so that the
# GPU does not wait for what the processors can do meanwhile.


def _checked_option(wildcards, input):
    return f"--checked {input.checked}" if input.checked else ""


# Clocks are locked only where that was asked for; then it is tried at the start of a run, and not after ten minutes of it.
rule clocks:
    output:
        f"{PARTS}/locked.left_out.txt",
    log:
        f"results/logs/{MACHINE}/clocks.log",
    priority: 100
    resources:
        gpu=1,
    params:
        job=JOB,
        settings=PLAN.job,
    shell:
        "python -m experiments.stages.try_lock --job {params.job} --left-out {output} 2>&1 | tee {log}"


rule machine:
    input:
        multiext(f"{BUILD}/ceilings", ".cubin", ".ptx"),
        harness=HARNESS,
    output:
        f"{PARTS}/machine.json",
    log:
        f"results/logs/{MACHINE}/machine.log",
    priority: 10
    resources:
        gpu=1,
    params:
        job=JOB,
        settings=PLAN.job,
        machine=MACHINE,
    shell:
        "python -m experiments.stages.machine --job {params.job} --machine {params.machine} --out {output} 2>&1 | tee {log}"


# Correctness. A failure is a row, not a failed job: `passed` ends the run non-zero, after the report. What is measured is
# kept in STORE, one file a measurement: a job that runs again measures only what is missing or has changed.
rule check:
    input:
        lambda wildcards: built_for(PLAN.runnable_of(wildcards.experiment, wildcards.part)),
        harness=HARNESS,
    output:
        table=f"{PARTS}/check/{{experiment}}/{{part}}.csv",
    log:
        f"results/logs/{MACHINE}/check/{{experiment}}/{{part}}.log",
    priority: 10
    resources:
        gpu=1,
    params:
        variants=lambda wildcards: PLAN.runnable_of(wildcards.experiment, wildcards.part),
        job=JOB,
        settings=PLAN.job,
    shell:
        "python -m experiments.stages.check {params.variants} --job {params.job}"
        " --out {output.table} 2>&1 | tee {log}"


# Time, clock and power: one job for some problems of a part of an experiment, in one clock policy.
rule bench:
    input:
        lambda wildcards: built_for(PLAN.parts(wildcards.experiment)[wildcards.part]),
        lambda wildcards: f"experiments/{wildcards.experiment}.yaml",
        lambda wildcards: rules.clocks.output if wildcards.clock_policy == "locked" else [],
        harness=HARNESS,
        checked=lambda wildcards: checked(wildcards.experiment, wildcards.part),
    output:
        windows=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.csv",
        checks=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.checks.csv",
        samples=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.parquet",
        algorithm_search=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.algorithm_search.csv",
        left_out=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.log",
    priority: 15  # before other kernels are checked, so that the GPU has work from the start
    resources:
        gpu=1,
    params:
        variants=lambda wildcards: PLAN.parts(wildcards.experiment)[wildcards.part],
        job=JOB,
        settings=PLAN.job,
        checked=_checked_option,
    shell:
        "python -m experiments.stages.bench {wildcards.experiment} {params.variants} --job {params.job}"
        " --slice {wildcards.slice} --clock-policy {wildcards.clock_policy} {params.checked} --windows {output.windows}"
        " --checks {output.checks} --samples {output.samples} --algorithm-search {output.algorithm_search}"
        " --left-out {output.left_out} 2>&1 | tee {log}"


# Hardware counters through Nsight Compute, which starts once for some of an experiment's variants. Without it, or without
# the permission, the table is empty and left_out.txt says why. Libraries make the call that their algorithm search found.
rule profile:
    input:
        lambda wildcards: built_for(PLAN.everything[wildcards.experiment].variants),
        lambda wildcards: [
            f"{PARTS}/bench/{stem}.algorithm_search.csv" for stem in PLAN.timed(f"/only/{wildcards.experiment}")
        ],
        harness=HARNESS,
        checked=lambda wildcards: [
            path for part in PLAN.parts(wildcards.experiment) for path in [checked(wildcards.experiment, part)] if path
        ],
    output:
        counters=f"{PARTS}/profile/{{experiment}}.csv",
        with_beta=f"{PARTS}/profile/{{experiment}}.with_beta.csv",
        left_out=f"{PARTS}/profile/{{experiment}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/profile/{{experiment}}.log",
    priority: 10
    resources:
        gpu=1,
    params:
        variants=lambda wildcards: PLAN.everything[wildcards.experiment].variants,
        problems=lambda wildcards: PLAN.everything[wildcards.experiment].profiled,
        job=JOB,
        settings=PLAN.job,
        checked=_checked_option,
    shell:
        "python -m experiments.stages.profile {params.variants} --job {params.job}"
        " --problem {params.problems} {params.checked} --out {output.counters}"
        " --with-beta {output.with_beta}"
        " --left-out {output.left_out} 2>&1 | tee {log}"


# The sweep over tiles takes minutes, and the tile that it finds is used from the next run on.
if PLAN.sweeping:

    rule tune:
        input:
            "experiments/tuning/tile_autotune.yaml",
            "experiments/tuning/space.py",
            swept_sources(),
            toolchain="results/toolchain.json",
            harness=HARNESS,
        output:
            f"{RESULTS}/tuning.csv",
            f"{RESULTS}/tuned.json",
        log:
            f"results/logs/{MACHINE}/tune.log",
        priority: 10
        threads: 64  # or all of this machine: the sweep compiles on every core
        resources:
            gpu=1,
            runtime=240,
        params:
            job=JOB,
            settings=UNTUNED,
            machine=MACHINE,
            out=subpath(output[0], parent=True),
        shell:
            "python -m experiments.tuning.sweep --job {params.job} --machine {params.machine} --out-dir {params.out} 2>&1 | tee {log}"
