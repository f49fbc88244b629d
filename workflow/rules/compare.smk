# Any two variants head to head: snakemake --cores 1 compare --config variant_a=sgemm_tiling variant_b=sgemm_at_tiling
# Where there is a GPU, whichever of them has no counters yet is profiled first. There is no output: it prints every time.


rule compare:
    input:
        measured(f"{RESULTS}/only/{COMPARED.name}" if MEASURING else SOURCE),
        ANALYSIS,
        "analysis/tables/compare.py",
        variants="results/variants.csv",
    log:
        "results/logs/compare.log",
    conda:
        "../../env.yaml"
    params:
        measured=subpath(input[0], parent=True),
        a=config["variant_a"],
        b=config["variant_b"],
        label=LABEL,
        out=f"results/tables/compare_{config['variant_a']}_{config['variant_b']}.csv",
    shell:
        "python -m analysis.tables.compare --a {params.a} --b {params.b} --measured {params.measured} --variants {input.variants}"
        " {params.label} --out {params.out} 2>&1 | tee {log}"
