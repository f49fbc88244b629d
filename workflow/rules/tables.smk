# The parts that jobs wrote, joined into the recorded tables: once for all experiments, and once for each alone
# (results/MACHINE/only/NAME).


# Recorded table: its parts
_JOINED = {
    "emulated_checks": _emulated("checks"),
    **(
        {
            "samples": _bench(".parquet"),
            "windows": _bench(".csv"),
            "checks": _checks,
            "algorithm_search": _bench(".algorithm_search.csv"),
            "counters": _profile(".csv"),
            "counters_with_beta": _profile(".with_beta.csv"),
        }
        if PLAN.measuring
        else {}
    ),
}
# Those of the whole catalogue, in no experiment's scope
_WHOLE = {
    "resources": [f"{BUILD}/{kernel}.json" for kernel in PLAN.kernels],
    **{
        table: [f"{RESULTS}/parts/emulate/{name}/{table}.csv" for name in PLAN.runnable]
        for table in ("predictions", "bounds", "shared_widths")
    },
}

for _name, _parts in (_JOINED | _WHOLE).items():
    if not registry.tables()[_name].needs_gpu and not PLAN.joins(_name):
        continue

    rule:
        name:
            f"{_name}_table"
        input:
            _parts,
        output:
            f"{RESULTS}{'{scope}' if _name in _JOINED else ''}/{registry.tables()[_name].file}",
        log:
            f"results/logs/{MACHINE}{'{scope}' if _name in _JOINED else ''}/{_name}.log",
        localrule: True
        params:
            table=_name,
        shell:
            "python -m experiments.stages.merge {params.table} {input} --out {output} 2>&1 | tee {log}"


if PLAN.measuring:

    rule provenance:
        input:
            tables=[f"{RESULTS}{{scope}}/{name}.csv" for name in ("windows", "checks", "counters")],
            machine=f"{RESULTS}/parts/machine.json",
            toolchain="results/toolchain.json",
            profile=_profile(".left_out.txt"),
            locked=lambda wildcards: [
                *rules.clocks.output,
                *(path for path in _bench(".left_out.txt")(wildcards) if path.endswith("-locked.left_out.txt")),
            ],
        output:
            f"{RESULTS}{{scope}}/provenance.json",
        log:
            f"results/logs/{MACHINE}{{scope}}/provenance.log",
        localrule: True
        params:
            job=JOB,
            settings=PLAN.job,
            left_out=lambda wildcards, input: [
                f"--left-out {stage}={path}" for stage in ("profile", "locked") for path in input[stage]
            ],
        shell:
            "python -m experiments.stages.provenance --machine-json {input.machine} --toolchain {input.toolchain} --job {params.job}"
            ' --command "$GEMM_LADDER_COMMAND" {params.left_out} --out {output} 2>&1 | tee {log}'

    rule machine_of_scope:
        input:
            f"{RESULTS}/parts/machine.json",
        output:
            f"{RESULTS}{{scope}}/machine.json",
        log:
            f"results/logs/{MACHINE}{{scope}}/machine.log",
        localrule: True
        shell:
            "cp {input} {output} 2>&1 | tee {log}"


# There only when every check passed: after figures, paper and report, so that a failed check is in them.
rule passed:
    input:
        # the GPU's checks hold the emulator's too
        checks=f"{RESULTS}{{scope}}/{'checks' if PLAN.measuring else 'emulated-checks'}.csv",
        last=lambda wildcards: (
            figures_of(wildcards.scope.rpartition("/")[2])
            if wildcards.scope
            else ["results/paper.pdf", "results/report.html"]
        ),
    output:
        f"{RESULTS}{{scope}}/passed.txt",
    log:
        f"results/logs/{MACHINE}{{scope}}/passed.log",
    localrule: True
    shell:
        "python -m experiments.stages.require_passed --checks {input.checks} --out {output} 2>&1 | tee {log}"


# What was measured so far, into one file from which another machine of this GPU model goes on: --config resume=FILE.
if PLAN.measuring:

    rule pack:
        log:
            "results/logs/pack.log",
        localrule: True
        params:
            results=RESULTS,
            out=f"{RESULTS}.measured.tar.xz",
        shell:
            "python -m experiments.stages.pack {params.results} --out {params.out} 2>&1 | tee {log}"


# This machine's measurements into data/MACHINE, from where they stand in on machines without a GPU: all tables that `all`
# and the other targets of the same command make, which need not be drawn for that.
rule archive:
    input:
        PLAN.to_archive,
    log:
        "results/logs/archive.log",
    localrule: True
    params:
        measured=RESULTS,
        data=f"data/{MACHINE}",
    shell:
        "python -m experiments.stages.archive --measured {params.measured} --data {params.data} 2>&1 | tee {log}"
