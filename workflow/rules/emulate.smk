# What needs no GPU: kernels run once on the emulator, and what follows from numbers alone.


if not PLAN.drawing:

    # One job runs up to six kernels. The predictions of a batch are of the problems that experiments profile.
    rule emulate:
        input:
            lambda wildcards: built(*PLAN.emulations[wildcards.batch]),
            "workflow/bank_pictures.yaml",
        output:
            checks=f"{PARTS}/emulate/{{batch}}/checks.csv",
            predictions=f"{PARTS}/emulate/{{batch}}/predictions.csv",
            bounds=f"{PARTS}/emulate/{{batch}}/bounds.csv",
            shared_widths=f"{PARTS}/emulate/{{batch}}/shared_widths.csv",
            pictured=f"{PARTS}/emulate/{{batch}}/bank_accesses.json",
            lens=directory(f"{PARTS}/emulate/{{batch}}/lens"),
            results=[directory(f"{PARTS}/emulate/{{batch}}/results")] if PLAN.measuring else [],
        log:
            f"results/logs/{MACHINE}/emulate/{{batch}}.log",
        params:
            variants=lambda wildcards: PLAN.emulations[wildcards.batch],
            predict=lambda wildcards: [
                f"--predict {name} {' '.join(map(str, problems))}"
                for name in PLAN.emulations[wildcards.batch]
                if (problems := PLAN.predicted(name))
            ],
            built=BUILT,
            emulator=EMULATOR,
            out=subpath(output[0], parent=True),
            # This GPU, or the one whose archive stands in for it.
            gpu=[MACHINE, config["archive"]],
            results="--results" if PLAN.measuring else "",
        shell:
            "python -m experiments.emulation {params.variants} {params.built} {params.predict} {params.results}"
            " --gpu {params.gpu} --out-dir {params.out} 2>&1 | tee {log}"


# Each kernel's source, machine code and costs, VARIANT.json in a folder for each batch. They are made where the kernels are
# emulated; drawing takes those that are there.
LENSES = [
    folder
    for folder in emulated(PLAN.emulated, "lens")
    if not PLAN.drawing or any(path.startswith(f"{folder}/") for path in PLAN.inventory.files)
]


rule lens:
    """Each kernel's source, machine code and costs side by side, for the explorer."""
    input:
        LENSES,


# Accesses to shared memory on their banks, with and without what mends them: all in one process. They are recorded where the
# kernels are emulated; where drawing finds none recorded, it builds and emulates what the pictures show in the same process.
if PICTURES:
    _pictured = sorted({name for picture in PICTURES.values() for name in picture.variants})
    _recorded = emulated(_pictured, "bank_accesses.json")
    _are_there = not PLAN.drawing or PLAN.inventory.has(*_recorded)

    rule bank_pictures:
        input:
            "workflow/bank_pictures.yaml",
            _recorded if _are_there else ["results/toolchain.json", *sources_of(_pictured)],
        output:
            [f"results/figures/banks_{name}.json" for name in PICTURES],
        log:
            "results/logs/figures/banks.log",
        params:
            emulator=EMULATOR,
            pictures=list(PICTURES),
            accesses=(
                f"--emulated {' '.join(_recorded)}" if _are_there else f"--arch {ARCH} {NVCC}"
            ),
            out="results/figures",
        shell:
            "python -m experiments.emulation.bank_pictures {params.pictures} {params.accesses} --out-dir {params.out}"
            " 2>&1 | tee {log}"


rule analytic:
    input:
        "experiments/stages/analytic.py",
        "ptxsim/count/occupancy.py",
        cases=sorted(path.as_posix() for path in contracts.worklogs.files("analytic.yaml").values()),
    output:
        "results/analytic.csv",
    log:
        "results/logs/analytic.log",
    params:
        emulator=EMULATOR,
    shell:
        "python -m experiments.stages.analytic --cases {input.cases} --out {output} 2>&1 | tee {log}"


rule xor_double_buffer:
    """The double buffer of sgemm.cu's 128x128x8 on the emulator, again; findings read its table."""
    log:
        "results/logs/xor_double_buffer.log",
    shell:
        "python -m experiments.studies xor_double_buffer --out paper/worklogs/sgemm_cu/xor_double_buffer.csv"
        " 2>&1 | tee {log}"
