# What the worklogs claim, and what of it holds: the report table `claims` (analysis/claims), and the records in data/.


# Prints every time, and fails where a verdict on an archive is not the one that is recorded with it. `all` makes the
# table and does not fail by it.
rule claims:
    input:
        "results/tables/claims.csv",
        "results/figures/claims.svg",
        sorted(path.as_posix() for path in Path("data").glob("*/verdicts.csv")),
        drawn.tables()["claims"].code,
        sources(drawn.tables()["claims"]),
        inputs=INPUTS,
    log:
        "results/logs/claims.log",
    localrule: True
    shell:
        "python -m analysis.claims.judge --inputs {input.inputs} --check 2>&1 | tee {log}"
