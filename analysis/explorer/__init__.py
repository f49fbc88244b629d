"""The explorer: one page, results/explorer.html, on which a reader chooses what to see of the tables.

    python -m analysis.explorer --inputs results/inputs.json --out results/explorer.html

`content` is what the page knows, `charts` how Vega-Lite draws it (through Altair), `page.js` what it does with a click.
"""

# What it is made from, as captions.schema.yaml explains `reads` and `optional`
READS = (
    *("variants", "machine", "provenance", "bench", "checks", "counters", "resources", "other_runs"),
    *("report:claims", "report:findings"),
)
OPTIONAL = ("emulated_checks", "predictions", "bounds")
FILES = ("paper/worklogs/*/*.yaml", "paper/steps.yaml")
PARTS = ("page.html", "page.css", "page.js")
# Figures and tables that it stands for: they are not in Snakemake's report, but for the ladder that this opens with
STANDS_FOR = (
    "ladder",
    "sizes",
    "data_kinds",
    "energy",
    "counters",
    "counters_of_experiment",
    "predicted",
    "bounds",
    "stalls",
)
STANDS_FOR_TABLES = ("claims", "ladder", "sizes", "data_kinds", "counters", "predicted", "bounds", "steps", "resources")
OPENING = "ladder_sgemm_ladder"
