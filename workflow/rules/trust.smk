# Second opinions on our own measuring: other ways of timing, another tool, a recorded process. By name, not in `all`.


TRUST = {
    # table: what its command is called with, for each variant
    "cross_checks": (
        ["sgemm_vectorized", "sgemm_warptile", "sgemm_at_swizzle_dbf_rw", "hgemm_naive_bf16"],
        "experiments.studies.cross_checks.measure",
        "--size 1024 --size 4096 --size 8192",
    ),
    "timing_methods": (
        ["sgemm_warptile", "cublas_fp32", "cublas_bf16"],
        "experiments.studies.timing_methods.measure",
        "--size 1024 --size 4096 --size 8192",
    ),
    "timeline": (
        ["sgemm_blocktile_2d", "sgemm_vectorized"],
        "experiments.studies.timeline.measure",
        "",
    ),
}

for _table, (_variants, _module, _options) in TRUST.items():

    rule:
        name:
            f"{_table}_of_variant"
        input:
            lambda wildcards: built(wildcards.variant),
            harness=f"{BUILD}/harness.cubin",
        output:
            f"{RESULTS}/parts/{_table}/{{variant}}.csv",
        log:
            f"results/logs/{MACHINE}/{_table}/{{variant}}.log",
        conda:
            "../../env.yaml"
        resources:
            gpu=1,
        params:
            build=subpath(input.harness, parent=True),
            module=_module,
            options=_options,
        shell:
            "python -m {params.module} {wildcards.variant} {params.options} --build-dir {params.build} --out {output}"
            " 2>&1 | tee {log}"

    rule:
        name:
            f"{_table}_table"
        input:
            [f"{RESULTS}/parts/{_table}/{variant}.csv" for variant in _variants if variant in VARIANTS],
        output:
            f"{RESULTS}/{_table}.csv",
        log:
            f"results/logs/{MACHINE}/{_table}.log",
        localrule: True
        conda:
            "../../env.yaml"
        params:
            table=_table,
        shell:
            "python -m experiments.stages.merge {params.table} {input} --out {output} 2>&1 | tee {log}"


rule trust:
    input:
        [f"{RESULTS}/{table}.csv" for table in TRUST],
