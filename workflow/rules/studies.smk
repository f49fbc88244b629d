# Tables that are made by a target of their own, most on a GPU, and not by `all`. What is there is drawn on any machine.

ERROR_OVER_K = ["sgemm_naive", "sgemm_3xtf32_mma", "sgemm_3xtf32_mma_outside", "sgemm_3xtf32_wgmma"]
ERROR_OVER_K += [
    "sgemm_3xtf32_wgmma_outside",
    "tf32gemm_bcf_dbf",
    "tf32gemm_bcf_dbf_rna",
    "cublas_fp32",
    "cublas_tf32",
]
TIMED_OTHERWISE = ["sgemm_warptile", "cublas_fp32", "cublas_bf16"]
# Of the sizes that sgemm_cu times, by 128 from the first to the last
TIMED_SIZES = [1024, 2048, 3072, 4096, 6144, 8192, 10240, 12800]
# The programs of the profiling worklog, with the sizes that each runs
PROGRAMS = {"sgemm_blocktile_2d": [128, 256, 512, 1024, 2048, 4096], "sgemm_vectorized": [4096]}

# Squares on which a library's own choice of a kernel is recorded
LIBRARY_SIZES = [64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192]


def there(names):
    """Those that take part; without a GPU, kernels of ours alone."""
    return [name for name in names if name in (PLAN.variants if PLAN.measuring else PLAN.runnable)]


# Errors of fp32 kernels as k grows: on the GPU or, where there is none, on the emulator
rule error_over_k_part:
    input:
        lambda wildcards: built(wildcards.variant),
        "experiments/studies/error_over_k.py",
        harness=HARNESS if PLAN.measuring else [],
    output:
        f"{PARTS}/error_over_k/{{variant}}.csv",
    log:
        f"results/logs/{MACHINE}/error_over_k.{{variant}}.log",
    priority: 10
    resources:
        gpu=int(PLAN.measuring),
    params:
        built=BUILT,
        emulated="" if PLAN.measuring else "--emulated",
        emulator="" if PLAN.measuring else EMULATOR,
    shell:
        "python -m experiments.studies error_over_k {wildcards.variant} {params.built} {params.emulated}"
        " --out {output} 2>&1 | tee {log}"


if PLAN.measuring:

    rule emulator_next_to_gpu:
        """The emulator's results beside the GPU's, bit by bit; a part of `all`."""
        input:
            built(*PLAN.kernels),
            harness=HARNESS,
            emulated=emulated(PLAN.kernels, "results"),
        output:
            f"{RESULTS}/emulator_next_to_gpu.csv",
        log:
            f"results/logs/{MACHINE}/emulator_next_to_gpu.log",
        priority: 10
        resources:
            gpu=1,
        params:
            kernels=[name for name in PLAN.emulated if name in PLAN.kernels],
            built=BUILT,
            store=IN_STORE,
        shell:
            "python -m experiments.emulation.compare_gpu {params.kernels} {params.built} {params.store}"
            " --emulated {input.emulated} --out {output} 2>&1 | tee {log}"

    # NVIDIA's compute-sanitizer on every kernel. Without it, the table is empty and left_out.txt says why.
    rule sanitize:
        """NVIDIA's compute-sanitizer on every kernel."""
        input:
            built(*PLAN.kernels),
            "experiments/stages/sanitize.py",
            harness=HARNESS,
        output:
            table=f"{RESULTS}/sanitizer.csv",
            left_out=f"{PARTS}/sanitizer.left_out.txt",
        log:
            f"results/logs/{MACHINE}/sanitizer.log",
        priority: 10
        resources:
            gpu=1,
            runtime=240,
        params:
            kernels=PLAN.kernels,
            built=BUILT,
        shell:
            "python -m experiments.stages.sanitize {params.kernels} {params.built} --out {output.table}"
            " --left-out {output.left_out} 2>&1 | tee {log}"

    rule tile_autotune:
        """All tiles of a kernel timed; the log ends with what to write in kernels/catalogue.yaml."""
        input:
            "experiments/tuning/tile_autotune.yaml",
            "experiments/tuning/space.py",
            sources_of(SWEPT_KERNELS),
            toolchain="results/toolchain.json",
            harness=HARNESS,
        output:
            f"{RESULTS}/tuning.csv",
        log:
            f"results/logs/{MACHINE}/tile_autotune.log",
        priority: 10
        # The sweep compiles on every core.
        threads: 64
        resources:
            gpu=1,
            runtime=240,
        params:
            arch=ARCH,
            nvcc=NVCC,
            build=BUILD,
        shell:
            "python -m experiments.tuning.sweep --arch {params.arch} {params.nvcc} --build-dir {params.build}"
            " --out {output} 2>&1 | tee {log}"

    # The same work timed in several ways, all in one process
    rule timing_methods_part:
        input:
            lambda wildcards: built(wildcards.variant),
            "experiments/studies/timing_methods.py",
            harness=HARNESS,
        output:
            f"{PARTS}/timing_methods/{{variant}}.csv",
        log:
            f"results/logs/{MACHINE}/timing_methods.{{variant}}.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
            sizes=[f"--size {n}" for n in TIMED_SIZES],
        shell:
            "python -m experiments.studies timing_methods {wildcards.variant} {params.sizes}"
            " {params.built} --out {output} 2>&1 | tee {log}"

    # What CUPTI records of a program that times kernels, through torch for CUDA
    rule api_calls_part:
        input:
            lambda wildcards: built(wildcards.variant),
            "experiments/studies/api_calls.py",
            harness=HARNESS,
        output:
            f"{PARTS}/api_calls/{{variant}}.csv",
        log:
            f"results/logs/{MACHINE}/api_calls.{{variant}}.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
            sizes=lambda wildcards: [f"--size {n}" for n in PROGRAMS[wildcards.variant]],
        shell:
            "python -m experiments.studies api_calls {wildcards.variant} {params.sizes}"
            " {params.built} --out {output} 2>&1 | tee {log}"

    rule library_kernels:
        input:
            "experiments/studies/library_kernels.py",
            harness=HARNESS,
        output:
            f"{RESULTS}/library_kernels.csv",
        log:
            f"results/logs/{MACHINE}/library_kernels.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
            sizes=[f"--size {n}" for n in LIBRARY_SIZES],
        shell:
            "python -m experiments.studies library_kernels cublas_fp32 {params.sizes}"
            " {params.built} --out {output} 2>&1 | tee {log}"

    rule ffma_issue:
        """Cycles of FFMAs by the banks of their registers, and of loads that ptxas merges."""
        input:
            multiext(f"{BUILD}/ffma_issue", ".cubin", ".ptx"),
            "experiments/studies/ffma_issue.py",
            harness=HARNESS,
        output:
            f"{RESULTS}/ffma_issue.csv",
        log:
            f"results/logs/{MACHINE}/ffma_issue.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
        shell:
            "python -m experiments.studies ffma_issue {params.built} --out {output} 2>&1 | tee {log}"

    rule inter_warp_conflicts:
        """Whether accesses of several warps to shared memory get in each other's way."""
        input:
            multiext(f"{BUILD}/inter_warp_conflicts", ".cubin", ".ptx"),
            "experiments/studies/inter_warp_conflicts.py",
            harness=HARNESS,
        output:
            f"{RESULTS}/inter_warp_conflicts.csv",
        log:
            f"results/logs/{MACHINE}/inter_warp_conflicts.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
            emulator=EMULATOR,
        shell:
            "python -m experiments.studies inter_warp_conflicts {params.built} --out {output} 2>&1 | tee {log}"

    rule smem_microbench:
        """Wavefronts of single accesses to shared memory, from which the emulator's rules come."""
        input:
            multiext(f"{BUILD}/smem_microbench", ".cubin", ".ptx"),
            "experiments/studies/smem_microbench.py",
            harness=HARNESS,
        output:
            f"{RESULTS}/smem_microbench.csv",
        log:
            f"results/logs/{MACHINE}/smem_microbench.log",
        priority: 10
        resources:
            gpu=1,
        params:
            built=BUILT,
        shell:
            "python -m experiments.studies smem_microbench {params.built} --out {output} 2>&1 | tee {log}"


rule error_over_k:
    """Errors of fp32 kernels as k grows, on the GPU or the emulator."""
    input:
        f"{RESULTS}/error_over_k.csv",


rule cross_validation:
    """Timings of the same kernels by other clocks, beside ours."""
    input:
        [PLAN.tables["timing_methods"]] if "timing_methods" in PLAN.made else [],


rule api_calls:
    """CUDA calls, kernels and copies of a program that times kernels, and the kernels of cuBLAS."""
    input:
        [PLAN.tables[name] for name in ("api_calls", "library_kernels") if name in PLAN.made],


# ---- tables that are joined of parts -------------------------------------------------------------


def parts_of_study(name, variants):
    """What the jobs of a study leave."""
    return lambda scope: [f"{PARTS}/{name}/{variant}.csv" for variant in there(variants)]


# By the file's stem: the parts in a scope, and the kernels whose rows are taken, in their order (None: all).
JOINED = {"error_over_k": (parts_of_study("error_over_k", ERROR_OVER_K), None)}
if PLAN.measuring:
    JOINED["timing_methods"] = (parts_of_study("timing_methods", TIMED_OTHERWISE), None)
    JOINED["api_calls"] = (parts_of_study("api_calls", PROGRAMS), None)
if not PLAN.drawing:
    JOINED["resources"] = (lambda scope: built(*PLAN.kernels_in(scope)), PLAN.kernels_in)
    JOINED["emulated-checks"] = (
        lambda scope: emulated(PLAN.emulated_in(scope), "checks.csv"),
        PLAN.emulated_in,
    )
    for _table in ("predictions", "bounds", "shared_widths"):
        JOINED[_table] = (
            lambda scope, file=f"{_table}.csv": emulated(PLAN.emulated, file),
            lambda scope: PLAN.emulated,
        )


# Of all experiments (results/MACHINE), and of one alone (results/MACHINE/only/NAME)
rule joined_table:
    input:
        lambda wildcards: JOINED[wildcards.joined][0](wildcards.scope),
    output:
        f"{RESULTS}{{scope}}/{{joined}}.csv",
    log:
        f"results/logs/{MACHINE}{{scope}}/{{joined}}.log",
    wildcard_constraints:
        joined="|".join(JOINED),
    localrule: True
    params:
        table=lambda wildcards: wildcards.joined.replace("-", "_"),
        variants=lambda wildcards: (
            f"--variants {' '.join(kernels)}"
            if (order := JOINED[wildcards.joined][1]) and (kernels := order(wildcards.scope))
            else ""
        ),
    shell:
        "python -m experiments.stages.tables joined {params.table} {input} {params.variants} --out {output} 2>&1 | tee {log}"
