"""GEMM Ladder: from kernel sources to the report.

snakemake --cores 1 all            everything that this machine can do
snakemake --cores 1 sgemm_ladder   one experiment (any file name in experiments/*.yaml)
snakemake --cores 1 tile_autotune  sweep over tiles; the winner is the kernel sgemm_autotuned from the next run on
snakemake --cores 1 compare        counters of two variants side by side: --config variant_a=NAME variant_b=NAME
snakemake --cores 1 claims         what the worklogs claim and what holds; fails where a recorded verdict changed
snakemake --cores 1 paper          figures and paper again, from what is measured or archived; measures nothing
snakemake --cores 1 archive        put this machine's measurements under data/
"""

from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/toolchain.smk"
include: "workflow/rules/build.smk"


if not REDRAWING:

    include: "workflow/rules/check.smk"


# The rules that need a GPU are not even there without one; then their tables are plain files in data/.
if MEASURING:

    include: "workflow/rules/bench.smk"
    include: "workflow/rules/profile.smk"
    include: "workflow/rules/agree.smk"
    include: "workflow/rules/trust.smk"
    include: "workflow/rules/tables.smk"


include: "workflow/rules/predict.smk"
include: "workflow/rules/banks.smk"
include: "workflow/rules/bounds.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/figures_beside.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/trusted.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/coverage.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/archive.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        "results/paper.pdf",
        "results/report.html",
        own_tables(),
        verdict(),


rule build:
    input:
        f"{RESULTS}/resources.csv",


rule paper:
    input:
        "results/paper.pdf",
        [f"results/figures/{name}.svg" for name in FIGURES],


for _name in EXPERIMENTS:

    rule:
        name:
            _name
        input:
            f"{RESULTS}/resources.csv",
            experiment_outputs(_name),
            verdict(_name),


# Snakemake itself says only that no rule makes a misspelt name.
if _slip := misspelt_target([rule.name for rule in workflow.rules]):
    sys.exit(f"error: unknown target {_slip[0]!r} in Snakefile, experiments/; nearest: {', '.join(_slip[1])}")
