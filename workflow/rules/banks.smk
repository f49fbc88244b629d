# Pictures of accesses to shared memory on their banks, with and without what mends them: no GPU is needed.


rule bank_picture:
    input:
        "kernels/arguments.py",
        "experiments/bank_pictures.py",
        "workflow/bank_pictures.yaml",
        pictured,
    output:
        svg=report(
            "results/figures/banks_{picture}.svg",
            category="4 Counters",
            subcategory="Banks, drawn",
            caption="../report/smem_microbench.rst",
            labels=lambda wildcards: {"figure": f"Banks: {BANK_PICTURES[wildcards.picture].title}"},
        ),
        others=multiext("results/figures/banks_{picture}", ".pdf", ".json"),
    log:
        "results/logs/figures/banks_{picture}.log",
    wildcard_constraints:
        picture="|".join(BANK_PICTURES) or "none",
    conda:
        "../../env.yaml"
    params:
        emulator=EMULATOR,
        build=BUILD,
    shell:
        "python -m experiments.bank_pictures {wildcards.picture} --build-dir {params.build} --out {output.svg} 2>&1 | tee {log}"
