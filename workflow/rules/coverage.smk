# What ran, what stands in from an archive, what was left out and why. Tables that other targets make are read if they are
# there, and are no inputs: `all` is not to make them again.


rule coverage:
    input:
        measured(SOURCE),
        offered(*OFFERED),
        "analysis/tables/coverage.py",
        "analysis/data.py",
        [f"{folder}/provenance.json" for folder in OTHERS],
        emulated=emulated(),
        resources=f"{RESULTS}/resources.csv",
    output:
        report(
            "results/tables/coverage.csv",
            category="6 Tables",
            subcategory=AS_CSV,
            caption="../report/coverage.rst",
            labels={"table": "Coverage"},
        ),
    log:
        "results/logs/coverage.log",
    localrule: True
    conda:
        "../../env.yaml"
    params:
        machine=MACHINE,
        measured=subpath(input[0], parent=True),
        archived=f"--archived '{WHY_ARCHIVED}'" if ARCHIVED else "",
        emulated=emulated_option,
        left_out=lambda wildcards: [
            f"--left-out {stage}={path}"
            for stage in BY_NAME
            if (path := Path(SOURCE, "parts", f"{stage}.left_out.txt")).is_file()
        ],
        archives=f"--archives {' '.join(OTHERS)}" if OTHERS else "",
        by_name=[
            f"{path}: {path.stat().st_size}" for name in BY_NAME if (path := Path(SOURCE, f"{name}.csv")).is_file()
        ],
    shell:
        "python -m analysis.tables.coverage --machine {params.machine} --measured {params.measured} {params.archived}"
        " --resources {input.resources} {params.emulated} {params.left_out} {params.archives} --out {output} 2>&1 | tee {log}"
