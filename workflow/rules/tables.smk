# The parts that jobs wrote, joined: once for all experiments, and once for each alone.


# Those of this run, and those that stay as they are
PARTS = {
    "bench": (bench_parts(".csv"), parts_before(".csv")),
    "checks": (check_parts, checks_before),
    "counters": (profile_parts(".csv"), lambda wildcards: []),
    "samples": (bench_parts(".parquet"), parts_before(".parquet")),
}

for _table, (_parts, _before) in PARTS.items():

    rule:
        name:
            f"{_table}_table"
        input:
            _parts,
        output:
            f"{RESULTS}{{scope}}/{_table}.{'parquet' if _table == 'samples' else 'csv'}",
        log:
            f"results/logs/{MACHINE}{{scope}}/{_table}.log",
        localrule: True
        conda:
            "../../env.yaml"
        params:
            table=_table,
            before=_before,
            as_they_are=lambda wildcards, before=_before: as_they_are(before(wildcards)),
        shell:
            "python -m experiments.stages.merge {params.table} {input} {params.before} --out {output} 2>&1 | tee {log}"


rule provenance:
    input:
        tables=[f"{RESULTS}{{scope}}/{table}" for table in ("bench.csv", "checks.csv", "counters.csv")],
        machine=f"{RESULTS}/parts/machine.json",
        toolchain="results/toolchain.json",
        profile=profile_parts(".left_out.txt"),
        locked=lambda wildcards: [*rules.clocks.output, *bench_parts(".left_out.txt", REGIMES[1:])(wildcards)],
    output:
        provenance=f"{RESULTS}{{scope}}/provenance.json",
        machine=f"{RESULTS}{{scope}}/machine.json",
    log:
        f"results/logs/{MACHINE}{{scope}}/provenance.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        left_out=lambda wildcards, input: [
            f"--left-out {stage}={path}" for stage in ("profile", "locked") for path in input[stage]
        ],
    shell:
        "python -m experiments.stages.provenance --machine-json {input.machine} --toolchain {input.toolchain}"
        ' --command "$GEMM_LADDER_COMMAND" {params.left_out} --out {output.provenance} 2>&1 | tee {log}'
        " && cp {input.machine} {output.machine}"
