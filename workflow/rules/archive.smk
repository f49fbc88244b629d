# This machine's measurements into data/MACHINE, from where they stand in on machines without a GPU.


rule archive:
    input:
        [] if ARCHIVED else [f"{RESULTS}/{table}" for table in [*TABLES, "resources.csv"]],
    log:
        "results/logs/archive.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True) if not ARCHIVED else RESULTS,
        data=f"data/{MACHINE}",
    shell:
        "python -m experiments.stages.archive --measured {params.measured} --data {params.data} 2>&1 | tee {log}"
