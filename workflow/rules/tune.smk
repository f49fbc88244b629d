# The sweep over tiles, and its heat map. Measured only where the command line names tile_autotune: it takes minutes, and
# the tile that it finds is used from the next run on. Otherwise the figure is drawn from the sweep whose record is in use.

if SWEEPING:

    rule tune:
        input:
            "experiments/studies/tile_autotune/tile_autotune.yaml",
            "experiments/studies/tile_autotune/space.py",
            sorted({p.relative_to(Path.cwd()).as_posix() for k in SWEPT for p in catalogue.kernels()[k].sources()}),
            toolchain="results/toolchain.json",
            harness=f"{BUILD}/harness.cubin",
        output:
            f"{RESULTS}/tuning.csv",
            f"{RESULTS}/tuned.json",
        log:
            f"results/logs/{MACHINE}/tune.log",
        conda:
            "../../env.yaml"
        threads: 64  # or all of this machine: the sweep compiles on every core
        resources:
            gpu=1,
        params:
            build=subpath(input.harness, parent=True),
            out=subpath(output[0], parent=True),
            machine=MACHINE,
            arch=ARCH,
            nvcc=nvcc_option(),
        shell:
            "python -m experiments.studies.tile_autotune.sweep --machine {params.machine} --arch {params.arch} {params.nvcc}"
            " --build-dir {params.build} --out-dir {params.out} 2>&1 | tee {log}"


if TUNING:

    rule autotune_figure:
        input:
            f"{TUNING}/tuning.csv",
            f"{TUNING}/tuned.json",
            ANALYSIS,
            "analysis/figures/autotune.py",
            variants="results/variants.csv",
        output:
            svg=report(
                "results/figures/autotune.svg",
                category="2 Ladder",
                subcategory="Worklog A",
                caption="../report/autotune.rst",
                labels={"figure": "Tiles, by what they reach"},
            ),
            pdf="results/figures/autotune.pdf",
        log:
            "results/logs/figures/autotune.log",
        conda:
            "../../env.yaml"
        params:
            tuning=subpath(input[0], parent=True),
            label=TUNING_LABEL,
        shell:
            "python -m analysis.figures.autotune --tuning {params.tuning} --variants {input.variants} {params.label}"
            " --out {output.svg} 2>&1 | tee {log}"


rule tile_autotune:
    input:
        "results/figures/autotune.svg" if TUNING else [],
