# What needs no GPU: each kernel run once on the emulator, and what follows from numbers alone.


# Drawing takes what was emulated as it is.
if "emulate" not in PLAN.kept:

    rule emulate:
        input:
            lambda wildcards: built(wildcards.variant),
            "workflow/bank_pictures.yaml",
        output:
            checks=f"{RESULTS}/parts/emulate/{{variant}}/checks.csv",
            predictions=f"{RESULTS}/parts/emulate/{{variant}}/predictions.csv",
            bounds=f"{RESULTS}/parts/emulate/{{variant}}/bounds.csv",
            shared_widths=f"{RESULTS}/parts/emulate/{{variant}}/shared_widths.csv",
            pictured=f"{RESULTS}/parts/emulate/{{variant}}/bank_accesses.json",
            results=[f"{RESULTS}/parts/emulate/{{variant}}/{EMULATED_RESULTS}"] if PLAN.measuring else [],
        log:
            f"results/logs/{MACHINE}/emulate/{{variant}}.log",
        params:
            job=JOB,
            emulator=EMULATOR,
            problems=lambda wildcards: PLAN.predicted(wildcards.variant),
            out=subpath(output[0], parent=True),
            rates=[MACHINE, config["archive"]],  # of this GPU, or of the one whose archive stands in for it
            results="--results" if PLAN.measuring else "",
        shell:
            "python -m experiments.emulation {wildcards.variant} --job {params.job} --problem {params.problems}"
            " --machine {params.rates} {params.results} --out-dir {params.out} 2>&1 | tee {log}"


# The grid of the sweep over tiles, in the order that the emulator gives it.
rule rank_tiles:
    input:
        "experiments/tuning/tile_autotune.yaml",
        "experiments/tuning/space.py",
        "experiments/tuning/ranking.py",
        swept_sources(),
        toolchain="results/toolchain.json",
    output:
        f"{RESULTS}/tuning_ranked.csv",
    log:
        f"results/logs/{MACHINE}/tile_ranking.log",
    threads: 64  # or all of this machine
    params:
        emulator=EMULATOR,
        out=subpath(output[0], parent=True),
        job=JOB,
        arch=ARCH,
        nvcc=config["nvcc"],
    shell:
        "python -m experiments.tuning.sweep --rank --job {params.job} --out-dir {params.out}"
        " --jobs {threads} 2>&1 | tee {log}"


# Accesses to shared memory on their banks, with and without what mends them: all in one process. They are recorded where the
# kernels are emulated; where drawing finds none recorded, it builds and emulates what the pictures show in the same process.
if PICTURES:
    _pictured = sorted({name for picture in PICTURES.values() for name in picture.variants})
    _recorded = [f"{RESULTS}/parts/emulate/{name}/bank_accesses.json" for name in _pictured]
    _are_there = not PLAN.drawing or PLAN.inventory.has(*_recorded)

    rule bank_pictures:
        input:
            "workflow/bank_pictures.yaml",
            (
                _recorded
                if _are_there
                else [
                    "results/toolchain.json",
                    *sorted({path for name in _pictured for path in relative(PLAN.catalogue.kernels[name].sources())}),
                ]
            ),
        output:
            [f"results/figures/banks_{name}.svg" for name in PICTURES],
            [f"results/figures/banks_{name}.{suffix}" for name in PICTURES for suffix in ("pdf", "json")],
        log:
            "results/logs/figures/banks.log",
        params:
            emulator=EMULATOR,
            pictures=list(PICTURES),
            accesses=f"--emulated {RESULTS}/parts/emulate" if _are_there else f"--arch {ARCH} {NVCC} {TUNED}",
            out=subpath(output[0], parent=True),
        shell:
            "python -m experiments.emulation.bank_pictures {params.pictures} {params.accesses} --out-dir {params.out}"
            " 2>&1 | tee {log}"


rule analytic:
    input:
        "experiments/stages/analytic.py",
        "kernels/occupancy.py",
        cases=sorted(path.as_posix() for path in contracts.worklogs.files("analytic.yaml").values()),
    output:
        "results/analytic.csv",
    log:
        "results/logs/analytic.log",
    params:
        emulator=EMULATOR,
    shell:
        "python -m experiments.stages.analytic --cases {input.cases} --out {output} 2>&1 | tee {log}"


# Only by name: the double buffer of sgemm.cu's 128x128x8 on the emulator. Findings read the table that is in the repository.
rule xor_double_buffer:
    log:
        "results/logs/xor_double_buffer.log",
    shell:
        "python -m experiments.studies.xor_double_buffer.measure --out paper/worklogs/sgemm_cu/xor_double_buffer.csv"
        " 2>&1 | tee {log}"
