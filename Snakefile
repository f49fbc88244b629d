"""GEMM Ladder: from kernel sources to the report.

`snakemake --list` names the targets. A file in results/ is one, too, and so is every experiment in experiments/.
"""

import difflib

from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/emulate.smk"


if PLAN.measuring:

    include: "workflow/rules/measure.smk"


include: "workflow/rules/studies.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


report: "workflow/report/workflow.rst"


rule all:
    """Everything that this machine can do, into results/."""
    default_target: True
    input:
        "results/paper.pdf",
        "results/supplement.pdf",
        "results/explorer.html",
        "results/report.html",
        [f"{RESULTS}/{TABLES[name].file}" for name in PLAN.made if TABLES[name].target == "all"],
        f"{RESULTS}/passed.txt" if PLAN.checking else [],


rule build:
    """Every kernel built, with registers and instructions in resources.csv."""
    input:
        f"{RESULTS}/resources.csv",


rule paper:
    """Figures, paper and supplement again, from what is there; measures and emulates nothing."""
    input:
        "results/paper.pdf",
        "results/supplement.pdf",


rule report:
    """The browsable report, results/report.html."""
    input:
        "results/report.html",


rule explorer:
    """The explorer, results/explorer.html, on which a reader chooses what to see."""
    input:
        "results/explorer.html",


# One experiment: its kernels, its figures and, where anything is measured or emulated for it, its checks
for _name in PLAN.experiments:

    rule:
        name:
            _name
        input:
            built(*PLAN.experiments[_name].variants) if PLAN.measuring else [],
            measured_for(_name) if PLAN.measuring else [],
            figures_of(_name),
            f"{RESULTS}/only/{_name}/passed.txt" if PLAN.checking else [],

    workflow.get_rule(_name).docstring = (
        f"{PLAN.experiments[_name].title}: {' '.join(PLAN.experiments[_name].question.split())}"
    )


# Any two variants side by side. There is no output: it prints every time (the table: rules/report.smk).
if PLAN.compared:

    rule compare:
        """Any two variants side by side: --config variant_a=NAME variant_b=NAME."""
        input:
            f"{COMPARED}.txt",
        log:
            "results/logs/compare.log",
        localrule: True
        shell:
            "cat {input} 2>&1 | tee {log}"


# This machine's measurements into data/MACHINE, from where they stand in on machines without a GPU: all tables that `all`
# and the other targets of the same command make, which need not be drawn for that.
rule archive:
    """Put this machine's measurements under data/."""
    input:
        PLAN.to_archive,
    log:
        "results/logs/archive.log",
    localrule: True
    params:
        measured=RESULTS,
        data=f"data/{MACHINE}",
    shell:
        "python -m experiments.stages.archive add {params.measured} {params.data} 2>&1 | tee {log}"


# What may be named, a sentence each; rules without one are parts of these.
if _arguments.list_rules or _arguments.list_target_rules:
    for _rule in sorted(
        workflow.rules, key=lambda rule: (rule.name in PLAN.experiments, rule.name)
    ):
        if _rule.docstring:
            print(f"{_rule.name:<22} {_rule.docstring}")
    sys.exit(0)


onsuccess:
    if "all" in (TARGETS or ["all"]):
        print("\n".join(PLAN.summary()))


# Snakemake itself says only that no rule makes a misspelt name. A workflow that includes this one may
# have rules of its own.
_is_main = Path(workflow.main_snakefile) == Path(workflow.basedir, "Snakefile")
_rules = [rule.name for rule in workflow.rules]
_outputs = [output for rule in workflow.rules for output in rule.output]
for _word in TARGETS if _is_main else ():
    if _word.startswith("results/"):
        _is_known = Path(_word).exists() or any(output.match(_word) for output in _outputs)
        _names = [str(output) for output in _outputs]
    else:
        _is_known = not _word.isidentifier() or _word in _rules
        _names = _rules
    if not _is_known:
        _near = difflib.get_close_matches(_word, _names, n=3)
        _known = (
            f"nearest: {', '.join(_near)}"
            if _near
            else "allowed: those that snakemake --list names, and files"
        )
        sys.exit(f"error: unknown target {_word!r} in Snakefile, experiments/; {_known}")
