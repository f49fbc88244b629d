# Figures, report tables, paper and report, from tables alone: measured ones in results/MACHINE, archived ones in data/.
# What there is to draw stands in the heads of captions (analysis/registry.py).

INPUTS = "results/inputs.json"
PLACES = PLAN.inputs(contracts.worklogs.sources())
_FILES = {**PLACES["tables"], "variants": "results/variants.csv", "analytic": "results/analytic.csv"}
OUTPUTS = {
    name: (figure, experiment)
    for name, (figure, experiment) in drawn.outputs(PLACES["experiments"]).items()
    if all(table in _FILES for table in figure.where_needed)
}
REPORT_TABLES = {
    name: table for name, table in drawn.tables().items() if all(needed in _FILES for needed in table.where_needed)
}
# Figures that one process draws: those of one category; one figure of each experiment; while measuring, an experiment's
# own by themselves. What reads a file that is written by hand is apart, for where that changes there is no
# reason to draw the others again; and where tiles are swept, what shows that, for it waits for nothing else.
FIGURE_GROUPS = {}
for _name, (_figure, _experiment) in OUTPUTS.items():
    _group = _figure.category[2:].replace(" ", "_").lower()
    _by_hand = [Path(read).stem for read in (*_figure.reads, *_figure.optional) if "/" in read]
    if _experiment in PLACES["of_experiment"]:
        _group = _experiment
    elif PLAN.sweeping and "tuning" in _figure.optional:
        _group = "swept"
    elif _by_hand:
        _group = f"of_{_by_hand[0]}"
    elif _experiment:
        _group = f"{_figure.stem}_of_experiments"
    FIGURE_GROUPS.setdefault(_group, []).append(_name)


rule inputs:
    output:
        INPUTS,
    log:
        "results/logs/inputs.log",
    localrule: True
    params:
        places=json.dumps(PLACES | {"tables": _FILES}),
    shell:
        "python -m contracts.write inputs {output} <<< {params.places:q} 2>&1 | tee {log}"


for _group, _names in FIGURE_GROUPS.items():

    rule:
        name:
            f"figures_{_group}"
        input:
            sorted({path for name in _names for path in sources(*OUTPUTS[name])}),
            sorted({path for name in _names for path in OUTPUTS[name][0].code}),
            "analysis/draw.py",
            inputs=INPUTS,
        output:
            [_place(name) for name in _names],
            [f"results/figures/{name}.pdf" for name in _names],
        log:
            f"results/logs/figures/{_group}.log",
        params:
            names=_names,
        shell:
            "python -m analysis.draw --inputs {input.inputs} --out results/figures {params.names} 2>&1 | tee {log}"


# All report tables in one process, but those that rest on every archive, each for itself (claims wait for no emulator,
# and coverage does), and what is made from other report tables.
TABLE_GROUPS = {}
for _name, _table in REPORT_TABLES.items():
    _first = [read.removeprefix("report:") for read in _table.reads if read.startswith("report:")]
    _group = f"of_{_first[0]}" if _first else _name if "archives" in _table.reads else "tables"
    TABLE_GROUPS.setdefault(_group, []).append(_name)

for _group, _names in TABLE_GROUPS.items():

    rule:
        name:
            f"report_{_group}"
        input:
            sorted({path for name in _names for path in sources(REPORT_TABLES[name])}),
            sorted({path for name in _names for path in REPORT_TABLES[name].code}),
            "analysis/tabulate.py",
            inputs=INPUTS,
        output:
            [
                in_report(
                    f"results/tables/{REPORT_TABLES[name].file}",
                    REPORT_TABLES[name],
                    {"table": REPORT_TABLES[name].title},
                    subcategory="As CSV files",
                )
                for name in _names
            ],
        log:
            f"results/logs/{_group}.log",
        params:
            names=_names,
        shell:
            "python -m analysis.tabulate --inputs {input.inputs} --out results/tables {params.names} 2>&1 | tee {log}"
