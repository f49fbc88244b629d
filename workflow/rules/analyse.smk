# Figures and the paper's tables. They read tables only: measured ones in results/MACHINE, or archived ones in data/.

# A figure of one experiment: its bars, its sweep or its counters. One rule a kind, since a caption is one file.
for _kind, _category in {
    "ladder": "2 Ladder",
    "data_kinds": "2 Ladder",
    "sizes": "3 Sizes",
    "counters": "4 Counters",
}.items():

    rule:
        name:
            f"{_kind}_of_experiment"
        input:
            lambda wildcards: measured(tables_of(wildcards.experiment)),
            ANALYSIS,
            command=f"analysis/figures/{_kind}.py",
            emulated=lambda wildcards: emulated(wildcards.experiment),
            variants="results/variants.csv",
        output:
            svg=report(
                f"results/figures/{_kind}_{{experiment}}.svg",
                category=_category,
                subcategory=lambda wildcards: worklogs_of(wildcards.experiment),
                caption=f"../report/{_kind}.rst",
                labels=lambda wildcards: {"figure": EXPERIMENTS[wildcards.experiment].title},
            ),
            pdf=f"results/figures/{_kind}_{{experiment}}.pdf",
        log:
            f"results/logs/figures/{_kind}_{{experiment}}.log",
        conda:
            "../../env.yaml"
        params:
            kind=_kind,
            measured=subpath(input[0], parent=True),
            chosen=lambda wildcards, kind=_kind: (
                f"--only {' '.join(EXPERIMENTS[wildcards.experiment].variants)}"
                f" --size {EXPERIMENTS[wildcards.experiment].profile_size}"
                if kind == "counters"
                else f"--experiment {wildcards.experiment}"
            ),
            label=LABEL,
            emulated=emulated_option,
        shell:
            "python -m analysis.figures.{params.kind} {params.chosen} --measured {params.measured}"
            " --variants {input.variants} {params.label} {params.emulated} --out {output.svg} 2>&1 | tee {log}"


# A figure over all experiments.
for _figure, (_category, _title) in FIGURES_OVER_ALL.items():

    rule:
        name:
            f"{_figure}_figure"
        input:
            measured(SOURCE),
            ANALYSIS,
            ["analysis/tables/compare.py", "analysis/figures/counters.py"] if _figure == "stalls" else [],
            command=f"analysis/figures/{_figure}.py",
            emulated=emulated(),
            variants="results/variants.csv",
        output:
            svg=report(
                f"results/figures/{_figure}.svg",
                category=_category,
                subcategory=None if _category.startswith("5") else ALL_KERNELS,
                caption=f"../report/{_figure}.rst",
                labels={"figure": _title},
            ),
            pdf=f"results/figures/{_figure}.pdf",
        log:
            f"results/logs/figures/{_figure}.log",
        conda:
            "../../env.yaml"
        params:
            figure=_figure,
            measured=subpath(input[0], parent=True),
            label=LABEL,
            emulated=emulated_option,
        shell:
            "python -m analysis.figures.{params.figure} --measured {params.measured} --variants {input.variants} {params.label} {params.emulated}"
            " --out {output.svg} 2>&1 | tee {log}"


rule tail_figure:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/figures/wave_quantization.py",
        emulated=emulated(),
        variants="results/variants.csv",
        resources=f"{RESULTS}/resources.csv",
    output:
        svg=report(
            "results/figures/wave_quantization.svg",
            category="4 Counters",
            subcategory=ALL_KERNELS,
            caption="../report/wave_quantization.rst",
            labels={"figure": "Waves and load balance"},
        ),
        pdf="results/figures/wave_quantization.pdf",
    log:
        "results/logs/figures/wave_quantization.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
    shell:
        "python -m analysis.figures.wave_quantization --measured {params.measured} --variants {input.variants} --resources {input.resources}"
        " {params.label} {params.emulated} --out {output.svg} 2>&1 | tee {log}"


rule paper_tables:
    input:
        measured(SOURCE),
        ANALYSIS,
        "analysis/tables/compare.py",
        "analysis/figures/data_kinds.py",
        "analysis/tables/paper.py",
        "analysis/figures/wave_quantization.py",
        emulated=emulated(),
        experiments=[f"experiments/{name}.yaml" for name in EXPERIMENTS],
        variants="results/variants.csv",
        resources=f"{RESULTS}/resources.csv",
        tuning=[f"{TUNING}/tuning.csv", f"{TUNING}/tuned.json"] if TUNING else [],
    output:
        "results/tables/summary.json",
        [
            report(
                f"results/tables/{name}.csv",
                category="6 Tables",
                subcategory=AS_CSV,
                caption="../report/tables.rst",
                labels={"table": title},
            )
            for name, title in PAPER_TABLES.items()
        ],
    log:
        "results/logs/tables.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        label=LABEL,
        emulated=emulated_option,
        tuning=f"--tuning {TUNING} {TUNING_LABEL.replace('--', '--tuning-')}".rstrip() if TUNING else "",
    shell:
        "python -m analysis.tables.paper --measured {params.measured} --experiments {input.experiments} {params.tuning}"
        " --variants {input.variants} --resources {input.resources} {params.label} {params.emulated} --out results/tables 2>&1 | tee {log}"
