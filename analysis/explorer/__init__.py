"""The explorer: one page, results/explorer.html, on which a reader chooses what to see of the tables.

    python -m analysis.explorer --inputs results/inputs.json --figures results/figures --out results/explorer.html

`content` gathers the page's data, `charts` describes its charts for Vega-Lite (through Altair), and `page.js` reacts to
clicks.
"""

# What the page is made from; captions.schema.yaml explains `reads` and `optional`
READS = (
    *("variants", "machine", "provenance", "bench", "checks", "counters", "resources", "other_runs"),
    *("report:claims", "report:findings"),
)
OPTIONAL = ("emulated_checks", "predictions", "bounds")
FILES = ("paper/worklogs/*/*.yaml", "paper/steps.yaml", "analysis/findings/*/finding.yaml", "kernels/*/*.cu")
PARTS = ("page.html", "page.css", "page.js")
# Figures and tables that the page replaces: Snakemake's report leaves them out, except the ladder that it opens with
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
