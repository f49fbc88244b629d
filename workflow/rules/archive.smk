# This machine's measurements into data/MACHINE, from where they stand in on machines without a GPU.


rule archive:
    input:
        []
        if ARCHIVED
        else [f"{RESULTS}/{table}" for table in [*TABLES, "resources.csv"]],
    log:
        "results/logs/archive.log",
    conda:
        "../../env.yaml"
    shell:
        "python -m experiments.archive --measured {RESULTS} --data data/{MACHINE} 2>&1 | tee {log}"
