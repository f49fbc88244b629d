# What needs the GPU: one process a job, each holding a session while its kernels run. Without a GPU, or where a run only
# draws, these rules are not there, so that what they made is plain input. Their jobs come first (priority), so that the
# GPU does not wait for what the processors can do meanwhile.


def checks_of(experiment, part):
    """The correctness table of a part of an experiment; none for libraries alone."""
    return [f"{PARTS}/check/{experiment}/{part}.csv"] if PLAN.runnable_of(experiment, part) else []


def timed(suffix):
    """What the timing jobs of a scope leave."""
    return lambda wildcards: [
        f"{PARTS}/bench/{stem}{suffix}" for stem in PLAN.timed(wildcards.scope)
    ]


def profiled(suffix):
    """What profiling the experiments of a scope leaves."""
    return lambda wildcards: [
        f"{PARTS}/profile/{e.name}{suffix}" for e in PLAN.in_scope(wildcards.scope) if e.profiled
    ]


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
        lock="--lock" if config["lock_clocks"] else "",
        clocks=CLOCKS,
    shell:
        "python -m experiments.stages.try_lock {params.lock} {params.clocks} --left-out {output} 2>&1 | tee {log}"


# The GPU, and the most that it reaches in arithmetic and memory. It waits for no kernel, and so comes first.
rule machine:
    input:
        multiext(f"{BUILD}/ceilings", ".cubin", ".ptx"),
        harness=HARNESS,
    output:
        f"{PARTS}/machine.json",
    log:
        f"results/logs/{MACHINE}/machine.log",
    priority: 60
    resources:
        gpu=1,
    params:
        machine=MACHINE,
        built=BUILT,
        kept=KEPT,
    shell:
        "python -m experiments.stages.machine --machine {params.machine} {params.built} {params.kept} --out {output} 2>&1 | tee {log}"


# Correctness. A failure is a row, not a failed job: `passed` ends the run non-zero, after the report. What is measured is
# kept in STORE, one file a measurement: a job that runs again measures only what is missing or has changed. Most of it is
# work for processors, next to jobs that measure; for the seconds that kernels run it waits for a GPU by itself, and has
# no `gpu` here. On Slurm, where a job sees only what it asked for, the profile gives it one.
rule check:
    input:
        lambda wildcards: built(*PLAN.runnable_of(wildcards.experiment, wildcards.part)),
        harness=HARNESS,
    output:
        f"{PARTS}/check/{{experiment}}/{{part}}.csv",
    log:
        f"results/logs/{MACHINE}/check/{{experiment}}/{{part}}.log",
    # These come before other kernels are built, so that the GPU has work from the start.
    priority: 30
    params:
        variants=lambda wildcards: PLAN.runnable_of(wildcards.experiment, wildcards.part),
        built=BUILT,
        kept=KEPT,
    shell:
        "python -m experiments.stages.check {params.variants} {params.built} {params.kept} --out {output} 2>&1 | tee {log}"


# Time, clock and power: one job for some problems of a part of an experiment, in one clock policy.
rule bench:
    input:
        lambda wildcards: built(*PLAN.parts(wildcards.experiment)[wildcards.part]),
        lambda wildcards: f"experiments/{wildcards.experiment}.yaml",
        lambda wildcards: rules.clocks.output if wildcards.clock_policy == "locked" else [],
        harness=HARNESS,
        checked=lambda wildcards: checks_of(wildcards.experiment, wildcards.part),
    output:
        windows=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.csv",
        checks=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.checks.csv",
        samples=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.parquet",
        algorithm_search=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.algorithm_search.csv",
        left_out=f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.log",
    # These come before other kernels are checked.
    priority: 40
    resources:
        gpu=1,
    params:
        variants=lambda wildcards: PLAN.parts(wildcards.experiment)[wildcards.part],
        checked=lambda wildcards, input: f"--checked {input.checked}" if input.checked else "",
        sizes=f"--sizes-step {config['sizes_step']}" if config["sizes_step"] else "",
        clocks=CLOCKS,
        built=BUILT,
        kept=KEPT,
    shell:
        "python -m experiments.stages.bench {wildcards.experiment} {params.variants} {params.built} {params.kept}"
        " --slice {wildcards.slice} --clock-policy {wildcards.clock_policy} {params.clocks} {params.sizes} {params.checked}"
        " --windows {output.windows} --checks {output.checks} --samples {output.samples}"
        " --algorithm-search {output.algorithm_search} --left-out {output.left_out} 2>&1 | tee {log}"


# Hardware counters through Nsight Compute, which starts once for some of an experiment's variants. Without it, or without
# the permission, the table is empty and left_out.txt says why. Libraries make the call that their algorithm search found.
rule profile:
    input:
        lambda wildcards: built(*PLAN.everything[wildcards.experiment].variants),
        lambda wildcards: [
            f"{PARTS}/bench/{stem}.algorithm_search.csv"
            for stem in PLAN.timed(f"/only/{wildcards.experiment}")
        ],
        harness=HARNESS,
        checked=lambda wildcards: [
            path
            for part in PLAN.parts(wildcards.experiment)
            for path in checks_of(wildcards.experiment, part)
        ],
    output:
        counters=f"{PARTS}/profile/{{experiment}}.csv",
        with_beta=f"{PARTS}/profile/{{experiment}}.with_beta.csv",
        left_out=f"{PARTS}/profile/{{experiment}}.left_out.txt",
    log:
        f"results/logs/{MACHINE}/profile/{{experiment}}.log",
    priority: 25
    resources:
        gpu=1,
    params:
        variants=lambda wildcards: PLAN.everything[wildcards.experiment].variants,
        problems=lambda wildcards: PLAN.everything[wildcards.experiment].profiled,
        checked=lambda wildcards, input: f"--checked {input.checked}" if input.checked else "",
        built=BUILT,
        kept=KEPT,
    shell:
        "python -m experiments.stages.profile {params.variants} --problem {params.problems} {params.built} {params.kept}"
        " {params.checked} --out {output.counters} --with-beta {output.with_beta} --left-out {output.left_out} 2>&1 | tee {log}"


# ---- the tables: of all experiments (results/MACHINE), and of each alone (results/MACHINE/only/NAME) ------------------


rule windows_table:
    input:
        timed(".csv"),
    output:
        f"{RESULTS}{{scope}}/windows.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/windows.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge windows {input} --out {output} 2>&1 | tee {log}"


rule samples_table:
    input:
        timed(".parquet"),
    output:
        f"{RESULTS}{{scope}}/samples.parquet",
    log:
        f"results/logs/{MACHINE}{{scope}}/samples.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge samples {input} --out {output} 2>&1 | tee {log}"


rule algorithm_search_table:
    input:
        timed(".algorithm_search.csv"),
    output:
        f"{RESULTS}{{scope}}/algorithm_search.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/algorithm_search.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge algorithm_search {input} --out {output} 2>&1 | tee {log}"


# The checks of each kernel that takes part, on the GPU and on the emulator, then those of the timed runs
rule checks_table:
    input:
        lambda wildcards: [f"{PARTS}/check/{part}.csv" for part in PLAN.checked(wildcards.scope)],
        f"{RESULTS}{{scope}}/emulated-checks.csv",
        timed(".checks.csv"),
    output:
        f"{RESULTS}{{scope}}/checks.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/checks.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge checks {input} --out {output} 2>&1 | tee {log}"


rule counters_table:
    input:
        profiled(".csv"),
    output:
        f"{RESULTS}{{scope}}/counters.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/counters.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge counters {input} --out {output} 2>&1 | tee {log}"


rule counters_with_beta_table:
    input:
        profiled(".with_beta.csv"),
    output:
        f"{RESULTS}{{scope}}/counters_with_beta.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/counters_with_beta.log",
    localrule: True
    shell:
        "python -m experiments.stages.merge counters_with_beta {input} --out {output} 2>&1 | tee {log}"


rule machine_of_scope:
    input:
        f"{PARTS}/machine.json",
    output:
        f"{RESULTS}{{scope}}/machine.json",
    log:
        f"results/logs/{MACHINE}{{scope}}/machine.log",
    localrule: True
    shell:
        "cp {input} {output} 2>&1 | tee {log}"


rule provenance:
    input:
        tables=[f"{RESULTS}{{scope}}/{name}.csv" for name in ("windows", "checks", "counters")],
        machine=f"{PARTS}/machine.json",
        toolchain="results/toolchain.json",
        profile=profiled(".left_out.txt"),
        clocks=rules.clocks.output,
        locked=lambda wildcards: [
            path
            for path in timed(".left_out.txt")(wildcards)
            if path.endswith("-locked.left_out.txt")
        ],
    output:
        f"{RESULTS}{{scope}}/provenance.json",
    log:
        f"results/logs/{MACHINE}{{scope}}/provenance.log",
    localrule: True
    params:
        kept=KEPT,
        left_out=lambda wildcards, input: [
            *(f"--left-out profile={path}" for path in input.profile),
            *(f"--left-out locked={path}" for path in [*input.clocks, *input.locked]),
        ],
    shell:
        "python -m experiments.stages.provenance --machine-json {input.machine} --toolchain {input.toolchain} {params.kept}"
        ' --command "$GEMM_LADDER_COMMAND" {params.left_out} --out {output} 2>&1 | tee {log}'
