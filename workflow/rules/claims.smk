# What the worklogs claim, and what of it holds; and the findings of our own.


CLAIMS = sorted(path.as_posix() for path in Path("paper").rglob("*") if path.suffix in (".yaml", ".csv"))
OWN_RESULTS = f"--results {PLAN.source}" if not PLAN.archived else ""


rule claims_table:
    input:
        MEASURED,
        ARCHIVED,
        CLAIMS,
        CODE,
        "results/variants.csv",
        "results/analytic.csv",
    output:
        report("results/tables/claims.csv", category="Tables", caption="../report/claims.rst"),
    log:
        "results/logs/claims_table.log",
    params:
        own=OWN_RESULTS,
        archives=PLAN.archives,
    shell:
        "python -m analysis.claims {params.own} --archives {params.archives} --catalogue results/variants.csv"
        " --analytic results/analytic.csv --out {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


# Prints every time, and fails where a verdict on an archive is not the one that is recorded with it.
rule claims:
    input:
        "results/tables/claims.csv",
    log:
        "results/logs/claims.log",
    localrule: True
    params:
        own=OWN_RESULTS,
        archives=PLAN.archives,
    shell:
        "python -m analysis.claims {params.own} --archives {params.archives} --catalogue results/variants.csv"
        " --analytic results/analytic.csv --check 2>&1 | tee {log}"


rule findings:
    input:
        MEASURED,
        ARCHIVED,
        CLAIMS,
        CODE,
        "results/variants.csv",
    output:
        "results/tables/findings.json",
    log:
        "results/logs/findings.log",
    params:
        own=OWN_RESULTS,
        archives=PLAN.archives,
    shell:
        "python -m analysis.findings {params.own} --archives {params.archives} --catalogue results/variants.csv"
        " --out {output} 2>&1 | tee {log}"


# README's table and its findings are filled in, and its figure drawn again, of the archives alone.
rule readme:
    input:
        "results/tables/findings.json",
        "results/figures/overview_light.svg",
        "results/figures/overview_dark.svg",
    log:
        "results/logs/readme.log",
    localrule: True
    params:
        archives=PLAN.archives,
    shell:
        "( cp results/figures/overview_light.svg docs/ladder-light.svg && cp results/figures/overview_dark.svg docs/ladder-dark.svg"
        " && python -m analysis.readme --findings results/tables/findings.json --archives {params.archives}"
        " --catalogue results/variants.csv README.md ) 2>&1 | tee {log}"
