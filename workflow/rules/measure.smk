# What needs the GPU: one process a job, each holding a session while its kernels run. Without a GPU, or where a run only
# draws, these rules are not there, so that what they made is plain input. Their jobs come first (priority), so that the
# GPU does not wait for what the processors can do meanwhile.


def checks_of(experiment, part):
    """The manifest of the checks of a part of an experiment; none for libraries alone."""
    return [f"{PARTS}/check/{experiment}/{part}.json"] if PLAN.runnable_of(experiment, part) else []


def manifests_of(scope):
    """What the jobs that measure for a scope leave."""
    return [
        *rules.clocks.output,
        *rules.machine.output,
        *(f"{PARTS}/check/{part}.json" for part in PLAN.checked(scope)),
        *(f"{PARTS}/bench/{stem}.json" for stem in PLAN.timed(scope)),
        *(f"{PARTS}/profile/{e.name}.json" for e in PLAN.in_scope(scope) if e.profiled),
    ]


# Clocks are locked only where that was asked for; then it is tried at the start of a run, and not after ten minutes of it.
rule clocks:
    output:
        f"{PARTS}/locked.json",
    log:
        f"results/logs/{MACHINE}/clocks.log",
    priority: 100
    resources:
        gpu=1,
    params:
        lock="--lock" if config["lock_clocks"] else "",
        clocks=CLOCKS,
    shell:
        "python -m experiments.stages.try_lock {params.lock} {params.clocks} --out {output} 2>&1 | tee {log}"


# What is measured is stored in STORE, one file a measurement: a job that runs again measures only what is missing or has
# changed. Its output is a manifest, which names its measurements.


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
        store=IN_STORE,
    shell:
        "python -m experiments.stages.machine --machine {params.machine} {params.built} {params.store} --out {output} 2>&1 | tee {log}"


# Correctness. A failure is a row, not a failed job: `passed` ends the run non-zero, after the report. Most of it is work for
# processors, next to jobs that measure; for the seconds that kernels run it waits for a GPU by itself, and has no `gpu`
# here. On Slurm, where a job sees only what it asked for, the profile gives it one.
rule check:
    input:
        lambda wildcards: built(*PLAN.runnable_of(wildcards.experiment, wildcards.part)),
        harness=HARNESS,
    output:
        f"{PARTS}/check/{{experiment}}/{{part}}.json",
    log:
        f"results/logs/{MACHINE}/check/{{experiment}}/{{part}}.log",
    # These come before other kernels are built, so that the GPU has work from the start.
    priority: 30
    params:
        variants=lambda wildcards: PLAN.runnable_of(wildcards.experiment, wildcards.part),
        built=BUILT,
        store=IN_STORE,
    shell:
        "python -m experiments.stages.check {params.variants} {params.built} {params.store} --out {output} 2>&1 | tee {log}"


# The tiles of any width that searches of an experiment's part will time. It is work for processors, while other jobs measure.
rule compile_tiles:
    input:
        # A stored search is of these kernels.
        lambda wildcards: built(*PLAN.tiled(wildcards.experiment, wildcards.part)),
        "experiments/{experiment}.yaml",
        toolchain="results/toolchain.json",
        harness=HARNESS,
    output:
        f"{PARTS}/tiles/{{experiment}}/{{part}}.txt",
    log:
        f"results/logs/{MACHINE}/tiles/{{experiment}}/{{part}}.log",
    priority: 60
    threads: lambda wildcards: max(1, (workflow.cores or 1) // 2)
    params:
        variants=lambda wildcards: PLAN.tiled(wildcards.experiment, wildcards.part),
        sizes=f"--sizes-step {config['sizes_step']}" if config["sizes_step"] else "",
        built=BUILT,
        store=IN_STORE,
    shell:
        "python -m experiments.stages.compile_tiles {wildcards.experiment} {params.variants} {params.built} {params.store}"
        " {params.sizes} --jobs {threads} --out {output} 2>&1 | tee {log}"


# Time, clock and power: one job for some problems of a part of an experiment, in one clock policy.
rule bench:
    input:
        lambda wildcards: built(*PLAN.parts(wildcards.experiment)[wildcards.part]),
        lambda wildcards: f"experiments/{wildcards.experiment}.yaml",
        lambda wildcards: rules.clocks.output if wildcards.clock_policy == "locked" else [],
        lambda wildcards: (
            rules.compile_tiles.output if PLAN.tiled(wildcards.experiment, wildcards.part) else []
        ),
        harness=HARNESS,
        checked=lambda wildcards: checks_of(wildcards.experiment, wildcards.part),
    output:
        f"{PARTS}/bench/{{experiment}}/{{part}}-{{slice}}-{{clock_policy}}.json",
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
        store=IN_STORE,
    shell:
        "python -m experiments.stages.bench {wildcards.experiment} {params.variants} {params.built} {params.store}"
        " --slice {wildcards.slice} --clock-policy {wildcards.clock_policy} {params.clocks} {params.sizes} {params.checked}"
        " --out {output} 2>&1 | tee {log}"


# Hardware counters through Nsight Compute, which starts once for some of an experiment's variants. Without it, or without
# the permission, the manifest is empty and says why. Libraries make the call that their algorithm search found.
rule profile:
    input:
        lambda wildcards: built(*PLAN.everything[wildcards.experiment].variants),
        lambda wildcards: [
            f"{PARTS}/bench/{stem}.json" for stem in PLAN.timed(f"/only/{wildcards.experiment}")
        ],
        harness=HARNESS,
        checked=lambda wildcards: [
            path
            for part in PLAN.parts(wildcards.experiment)
            for path in checks_of(wildcards.experiment, part)
        ],
    output:
        f"{PARTS}/profile/{{experiment}}.json",
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
        store=IN_STORE,
    shell:
        "python -m experiments.stages.profile {params.variants} --problem {params.problems} {params.built} {params.store}"
        " {params.checked} --out {output} 2>&1 | tee {log}"


# All that was measured, as tables: of all experiments (results/MACHINE), and of each alone (results/MACHINE/only/NAME)
rule stored_tables:
    input:
        manifests=lambda wildcards: manifests_of(wildcards.scope),
        emulated_checks=f"{RESULTS}{{scope}}/emulated-checks.csv",
        toolchain="results/toolchain.json",
    output:
        [
            f"{RESULTS}{{scope}}/{TABLES[name].file}"
            for name in (
                *("machine", "provenance", "windows", "samples", "algorithm_search"),
                *("checks", "counters", "counters_with_beta"),
            )
        ],
    log:
        f"results/logs/{MACHINE}{{scope}}/stored_tables.log",
    localrule: True
    params:
        store=IN_STORE,
        out=subpath(output[0], parent=True),
    shell:
        "python -m experiments.stages.tables stored {input.manifests} {params.store} --emulated-checks {input.emulated_checks}"
        ' --toolchain {input.toolchain} --command "$GEMM_LADDER_COMMAND" --out-dir {params.out} 2>&1 | tee {log}'
