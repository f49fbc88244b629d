# Figures, report tables, paper and report, from tables alone: measured ones in results/MACHINE, archived ones in data/.
# What there is to draw, each figure and table says itself (analysis/registry.py).

INPUTS = "results/inputs.json"
PLACES = PLAN.inputs(contracts.read_yaml("paper/sources.yaml", "sources"))
_FILES = {**PLACES["tables"], "variants": "results/variants.csv", "analytic": "results/analytic.csv"}
OUTPUTS = {
    name: (figure, experiment)
    for name, (figure, experiment) in drawn.outputs(PLACES["experiments"]).items()
    if all(table in _FILES for table in figure.where_needed)
}
REPORT_TABLES = {
    name: table for name, table in drawn.tables().items() if all(needed in _FILES for needed in table.where_needed)
}
# Figures that one process draws: those of one category; while measuring, an experiment's own by themselves
FIGURE_GROUPS = {}
for _name, (_figure, _experiment) in OUTPUTS.items():
    _alone = _experiment in PLACES["of_experiment"]
    FIGURE_GROUPS.setdefault(_experiment if _alone else _figure.category[2:].replace(" ", "_").lower(), []).append(
        _name
    )


def sources(one, experiment=None):
    """The files that a figure or report table is made from, but code: recorded tables, report tables, others by path."""
    own = _FILES | PLACES["of_experiment"].get(experiment, {})
    found = []
    for name in (*one.reads, *(name for name in one.optional if name in own)):
        if name.startswith("report:"):
            found.append(f"results/tables/{drawn.tables()[name.removeprefix('report:')].file}")
        elif name in drawn.FOLDERS:  # the archives' tables, and this run's own beside them
            files = [f"{folder}/{table.file}" for folder in PLACES[name] for table in registry.tables().values()]
            found += [path for path in files if PLAN.inventory.has(path)]
            found += own.values() if PLAN.measuring else []
        else:
            found.append(name if "/" in name else own[name])
    return found


def in_report(path, one, labels, **place):
    """An output, with its place in the report where it has one."""
    if not one.category or ("other_runs" in one.reported_with and not PLACES["other_runs"]):
        return path
    return report(path, category=one.category, caption=f"../../{one.caption}", labels=labels, **place)


def figures_of(experiment):
    """The figures of one experiment."""
    return [f"results/figures/{name}.svg" for name, (_, of) in OUTPUTS.items() if of == experiment]


def _place(name):
    """A figure as an output, with its labels: by worklog where it is of one experiment."""
    figure, experiment = OUTPUTS[name]
    known = PLACES["experiments"].get(experiment, {})
    title = known.get("title", figure.title)
    return in_report(
        f"results/figures/{name}.svg", figure, {"figure": title}, subcategory=known.get("worklog", figure.subcategory)
    )


rule inputs:
    output:
        INPUTS,
    log:
        "results/logs/inputs.log",
    localrule: True
    params:
        places=PLACES,
    run:
        places = params.places | {"tables": _FILES}
        contracts.write_json(output[0], "inputs", places)


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


# All report tables in one process, but the claims, which rest on every archive.
TABLE_GROUPS = {}
for _name, _table in REPORT_TABLES.items():
    TABLE_GROUPS.setdefault("claims" if "archives" in _table.reads else "tables", []).append(_name)

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
