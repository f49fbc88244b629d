# The paper (Typst) and the browsable report (Snakemake's own).


PAGES = [name for name, one in REPORT_TABLES.items() if one.page]


# Both documents in one process: most of a compilation is reading tables and figures. The supplement would be a third of the
# report, which links to it instead.
DOCUMENTS = ("paper", "supplement")


rule paper_pdf:
    input:
        "analysis/render.py",
        sorted(path.as_posix() for folder in ("paper", "analysis/findings") for path in Path(folder).rglob("*.typ")),
        ["paper/references.bib", "paper/by_hand.csv"],
        [f"results/tables/{one.file}" for one in REPORT_TABLES.values()],
        [f"results/figures/{name}.pdf" for name in OUTPUTS],
        [f"results/figures/banks_{name}.{suffix}" for name in PICTURES for suffix in ("pdf", "json")],
    output:
        report(
            "results/paper.pdf",
            category="1 Paper",
            subcategory="Documents",
            caption="../report/paper.rst",
            labels={"paper": "The paper"},
        ),
        "results/supplement.pdf",
    log:
        "results/logs/paper.log",
    params:
        documents=[f"paper/{name}.typ" for name in DOCUMENTS],
        pictures=list(PICTURES),
    shell:
        "python -m analysis.render {params.documents} --tables results/tables --figures results/figures"
        " --bank-pictures {params.pictures} --out results 2>&1 | tee {log}"


# Two variants head to head: their counters, or, where there are none, the emulator's predictions.
if PLAN.compared:
    _pair = PLAN.compared.variants
    COMPARED = f"results/tables/compare_{'_'.join(_pair)}.csv"
    # with an archive, this tree's checks on the emulator stand in: of these two, not of all kernels
    _all_checked, _pair_checked = (f"{folder}/emulated-checks.csv" for folder in (RESULTS, f"{RESULTS}/only/compare"))

    rule compared:
        input:
            [path for path in sources(drawn.tables()["comparison"], PLAN.compared.name) if path != _all_checked],
            drawn.tables()["comparison"].code,
            [_pair_checked] if PLAN.archived else [],
            [
                f"{RESULTS}/parts/emulate/{name}/{table}.csv"
                for name in _pair
                if name in PLAN.runnable
                for table in ("predictions", "bounds")
            ],
            [f"{BUILD}/{name}.json" for name in _pair if name in PLAN.kernels],
            inputs=INPUTS,
        output:
            table=report(
                COMPARED,
                category="5 Tables",
                subcategory="Head to head",
                caption="../report/compare.rst",
                labels={"table": f"{_pair[0]} and {_pair[1]}"},
            ),
            text=COMPARED.replace(".csv", ".txt"),
        log:
            "results/logs/compared.log",
        localrule: True
        params:
            a=_pair[0],
            b=_pair[1],
            emulated=f"{RESULTS}/parts/emulate",
            built=BUILD,
            checks=f"--emulated-checks {_pair_checked}" if PLAN.archived else "",
            experiment="--experiment compare" if "compare" in PLACES["of_experiment"] else "",
        shell:
            "python -m analysis.tables.compare --inputs {input.inputs} {params.experiment} --a {params.a} --b {params.b}"
            " {params.checks} --emulated {params.emulated} --built {params.built} --text {output.text} --out {output.table} > {log} 2>&1"
            " || {{ cat {log} >&2; exit 1; }}"


# The report tables on one page that can be sorted and searched, without those that the explorer replaces. The report links to it.
SORTED = [name for name in PAGES if name not in explorer.STANDS_FOR_TABLES]


rule page_of_tables:
    input:
        [f"results/tables/{REPORT_TABLES[name].file}" for name in SORTED],
        "analysis/pages.py",
    output:
        "results/report/tables.html",
    log:
        "results/logs/tables.log",
    params:
        names=SORTED,
    shell:
        "python -m analysis.pages --tables results/tables --title Tables --out {output} {params.names} 2>&1 | tee {log}"


# The explorer: one page on which a reader chooses what to see of the tables.
rule explorer_html:
    input:
        sources(SimpleNamespace(reads=(*explorer.READS, *explorer.FILES), optional=explorer.OPTIONAL)),
        [f"results/figures/banks_{name}.{suffix}" for name in PICTURES for suffix in ("svg", "json")],
        [f"results/figures/{name}.svg" for name in OUTPUTS if name.startswith("finding_")],
        drawn.code_of(Path(workflow.basedir, "analysis/explorer/__main__.py")),
        [f"analysis/explorer/{name}" for name in explorer.PARTS],
        inputs=INPUTS,
    output:
        "results/explorer.html",
    log:
        "results/logs/explorer.log",
    params:
        pictures=list(PICTURES),
    shell:
        "python -m analysis.explorer --inputs {input.inputs} --tables results/tables --figures results/figures"
        " --out {output} {params.pictures} 2>&1 | tee {log}"


# A second Snakemake makes the report, since `snakemake --report FILE --report-after-run` makes none after a run that
# failed: here failed checks are in the report, and only then end the run (rule `passed`).
rule report_html:
    input:
        [f"results/{name}.pdf" for name in DOCUMENTS],
        [f"results/tables/{one.file}" for one in REPORT_TABLES.values()],
        [f"results/figures/{name}.svg" for name in OUTPUTS],
        "results/report/tables.html",
        COMPARED if PLAN.compared else [],
    output:
        "results/report.html",
    log:
        "results/logs/report.log",
    localrule: True
    params:
        config=[f"{key}={json.dumps(value)}" for key, value in sorted(config.items())],
    shell:
        "snakemake --report {output} --nolock --cores 1 {input} --config {params.config:q} 2>&1 | tee {log}"
