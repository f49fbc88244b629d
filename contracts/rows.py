"""Every recorded table and document, with its columns: what measuring writes, data/<gpu> archives
and analysis reads.

    @table("sanitizer", target="sanitize", archive="if there")
    class Sanitizer(Row):
        '''One row for each kernel and tool.'''

        KEY = ("variant", "tool")
        variant: Variant
        errors: int = column("errors or hazards reported", ge=0)

This is the only list of them. A table that stands here is made by its rule, joined, archived and
offered to `analysis` without another line. What is derived from a recorded table is made again, and
not recorded. Tables that belong to no GPU lie in a worklog's folder (`compiled`, `emulated`) or in
results/ (`variants`, `analytic`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, RootModel

from contracts.dtypes import types_pattern
from contracts.errors import UserError
from contracts.files import read_rows
from contracts.model import Document, Row, column, optional

T = TypeVar("T")

MADE_BY_OTHERS = ("all", "by hand")  # targets that are not a table's own
ORIGINS = "archived.json"  # in an archive: for each file, the run that it is from and its SHA-256
REHEARSAL = "rehearsal: times are not measurements"  # in every output of one that a reader sees


@dataclass(frozen=True)
class Table:
    """A recorded table or document: its file, its model, how it is made and whether it is
    archived.
    """

    name: str
    file: str
    model: type[Any]  # a Row or a Document
    needs_gpu: bool = True
    target: str = "all"  # what is asked of Snakemake to make it
    parts: str | None = None  # the stage whose jobs write its parts
    emulates: bool = False  # its target makes it on the emulator where there is no GPU
    archive: str = "never"  # whether data/GPU has it: "always", "if there" or "never"

    @property
    def optional(self) -> bool:
        """Whether a results folder is whole without it."""
        return self.archive != "always"

    @property
    def without_gpu(self) -> bool:
        """Whether its own target makes it on a computer without a GPU, too."""
        return self.emulates or not (self.needs_gpu or self.target in MADE_BY_OTHERS)

    @property
    def suffix(self) -> str:
        """The file's, with the dot."""
        return Path(self.file).suffix


TABLES: dict[str, Table] = {}  # every recorded table, by name


def table(name: str, file: str | None = None, **declared: Any) -> Callable[[type[T]], type[T]]:
    """The class below is a recorded table; `declared` are further fields of `Table`. The default
    file is NAME.csv.

    Raises `UserError` for a name or file that another table has.
    """

    def register(cls: type[T]) -> type[T]:
        made = Table(name, file or f"{name}.csv", cls, **declared)
        if any(made.name == other.name or made.file == other.file for other in TABLES.values()):
            raise UserError(
                f"table {name!r} with file {made.file!r} is registered twice; names and files must differ"
            )
        TABLES[name] = made
        return cls

    return register


def archives(root: Path) -> list[Path]:
    """Return the folder of each archive in root/data, by name."""
    return [path.parent for path in sorted(root.glob("data/*/provenance.json"))]


def is_rehearsal(gpu_name: str) -> bool:
    """Return whether a GPU of this name is the emulated one, such as "NVIDIA H100 rehearsal"."""
    return "rehearsal" in gpu_name.lower().split()


def _integer(value: Any) -> Any:
    """Return the integer that a cell holds; pydantic's `Literal` takes no text for a number."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


# ---- columns that many tables have ---------------------------------------------------------------

LARGEST = 2**31 - 1
ARCH = "^sm_[0-9]+[af]?$"
DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
SHA256 = "^[0-9a-f]{64}$"
SESSION = "^[0-9a-f]{8}$"
MHZ: dict[str, Any] = {"unit": "MHz", "gt": 0, "le": 100_000}

Variant = Annotated[str, Field(description="name in kernels/catalogue.yaml")]
Gemm = Annotated[
    str, Field(pattern=types_pattern(), description="dtypes of A and B, C and the sums: Types.name")
]
M = Annotated[int, Field(ge=1, le=LARGEST, description="rows of A and C")]
N = Annotated[int, Field(ge=1, le=LARGEST, description="columns of B and C")]
K = Annotated[int, Field(ge=1, le=LARGEST, description="columns of A, rows of B")]
Leading = Annotated[int, Field(ge=1, le=LARGEST, description="leading dimension, in elements")]
Count = Annotated[int, Field(ge=0)]
Data = Annotated[
    Literal["uniform", "normal", "zeros"], Field(description="inputs; uniform is [-1, 1]")
]
Layout = Annotated[Literal["row", "column"], Field(description="of B in memory")]
ClockPolicy = Annotated[
    Literal["boost", "locked"], Field(description="clocks as found, or locked through NVML")
]
Device = Annotated[
    Literal["gpu", "ptxsim"], Field(description="where it ran: on the GPU or on the emulator")
]
SourceHash = Annotated[
    str,
    Field(
        description="hash of source, included headers and template values, without comments and white space"
    ),
]
CodeHash = Annotated[
    str,
    Field(
        description="hash of what ran: machine code and launch of a kernel, kernels and choices of a dispatcher, "
        "the entry of a library; in older rows that of a source that has changed since"
    ),
]
ALPHA = "C = alpha A B + beta C; 1 in older tables"
BETA = "C is read where it is not 0; 0 in older tables"


Ended = Literal["precise", "longest time", "most samples"]


# ---- a run on a GPU: every archive has these -----------------------------------------------------


class Ceilings(Document):
    """Measured throughput of loops that do nothing else, the best of several runs."""

    fp32_fma_tflops: float = column("FFMA", unit="TFLOP/s", gt=0)
    fp32_fma_flop_per_clock_sm: float = column("FFMA", gt=0)
    bf16_mma_tflops: float = optional("mma.sync m16n8k16, fp32 sums", unit="TFLOP/s", gt=0)
    bf16_mma_flop_per_clock_sm: float = optional("the same", gt=0)
    bf16_wgmma_tflops: float = optional(
        "wgmma m64n256k16, operands in shared memory", unit="TFLOP/s", gt=0
    )
    bf16_wgmma_flop_per_clock_sm: float = optional("the same", gt=0)
    dram_copy_gb_per_s: float = column("bytes read plus bytes written", unit="GB/s", gt=0)


@table("machine", "machine.json", parts="run", archive="always")
class Machine(Document):
    """The GPU, its limits and its measured ceilings. No serial number, UUID, host or user name."""

    machine: str = column("folder name under results/ and data/", pattern="^[a-z0-9_-]+$")
    gpu: str = column("as NVIDIA names it")
    arch: str
    sm_count: int = column(ge=1)
    sm_clock_max_mhz: int = column(unit="MHz", ge=1)
    sm_clock_default_mhz: int | None = optional("NVML's default applications clock", unit="MHz")
    memory_clock_max_mhz: int = column(unit="MHz", ge=1)
    power_limit_w: float | None = optional(unit="W")
    memory_bytes: int = column(unit="bytes", ge=1)
    l2_bytes: int = column(unit="bytes", ge=1)
    texture_alignment_bytes: int = optional(
        "alignment of the address under a texture", unit="bytes", ge=1
    )
    driver: str
    cuda_driver: str = optional("the CUDA version that the driver supports")
    ceilings: Ceilings


class Session(Document):
    """An allocation of one GPU: one card on one boot of its host."""

    session: str = column(pattern=SESSION)
    driver: str | None
    commits: list[str] = optional("of the trees that measured, where they were clean")
    measurements: int = column(ge=1)
    first: str = column("when its first measurement was kept, UTC")
    last: str = column("when its last measurement was kept, UTC")


class Run(Document):
    """When, by what command and from which commit something was made."""

    date: str = column("UTC", pattern=DATE)
    command: str
    commit: str = column("git commit of the tree that ran")
    commit_clean: bool = column("no tracked file of that tree had an uncommitted change")


@table("provenance", "provenance.json", parts="run", archive="always")
class Provenance(Run):
    """What made the measurements in a folder, and when.

    No serial number, UUID, host or user name.
    """

    machine: str
    gpu: str
    driver: str
    cuda_driver: str
    toolchain: dict[str, str | None]
    python: str = optional()
    packages: dict[str, str]
    sources: dict[str, str] = column("variant to source hash")
    sessions: list[Session] = optional(
        "the cards that the run had; a row of windows.csv names its own"
    )
    left_out: dict[str, str] = optional("stage that did not run, and why")
    rules_commit: str = optional(
        "commit of main at which claims, findings, statistics and sizes were frozen; if left out: `commit`"
    )
    rules: dict[str, str] = optional("of older archives: hashes of rules, which nothing reads")


@table("samples", "samples.parquet", parts="bench", archive="always")
class Samples(Row):
    """One row for each timed launch. `analysis.timings` derives times and fractions from it and
    from windows.csv.
    """

    KEY = (
        *("experiment", "variant", "m", "n", "k", "alpha", "beta", "clock_policy", "data"),
        *("process", "window", "role", "index"),
    )
    ADDED = ("alpha", "beta", "process")
    experiment: str
    variant: str = column("the variant whose process this was")
    m: M
    n: N
    k: K
    alpha: float = column(ALPHA, default=1.0)
    beta: float = column(BETA, default=0.0)
    clock_policy: ClockPolicy
    data: Data
    window: Literal["interleaved", "worklog"] = column(
        "in turns with the baseline, or the protocol of sgemm_cu"
    )
    role: Literal["variant", "baseline"] = column(
        "what this launch ran; windows.csv names the baseline"
    )
    index: int = column("order within the window", ge=0)
    time_us: float = column(unit="us", gt=0)
    sm_clock_mhz: float | None = optional(
        "from device stamps, as a float; empty where no SM was seen before and after", **MHZ
    )
    kept: bool = column("whether it counts")
    reason: Literal["launch gap", "clock unknown", "clock off target"] | None = optional(
        "why it does not count: the queue ran dry before it, so that a launch gap may be in it; its clock is not "
        "known; with locked clocks, it is more than 1% off the locked SM clock"
    )
    process: int = column(
        "which of the fresh processes that measure the same", ge=0, le=1000, default=0
    )


@table(
    "windows",
    parts="bench",
    archive="always",
)
class Windows(Row):
    """One row for each experiment, variant, problem, clock policy, kind of data and process: what
    samples lack.
    """

    KEY = (
        "experiment",
        "variant",
        "m",
        "n",
        "k",
        "alpha",
        "beta",
        "clock_policy",
        "data",
        "process",
    )
    ADDED = (
        *(
            "alpha",
            "beta",
            "b_layout",
            "baseline_call",
            "session",
            "ci_half_width",
            "ended",
            "process",
        ),
        *("baseline_run_us", "power_error_w", "throttle_fractions"),
    )
    experiment: str
    variant: Variant
    dtype: Gemm
    m: M
    n: N
    k: K
    alpha: float = column(ALPHA, default=1.0)
    beta: float = column(BETA, default=0.0)
    b_layout: Layout | None = optional(
        "of B in memory; empty in older tables: as the catalogue has it"
    )
    clock_policy: ClockPolicy
    clock_source: str = column(
        "how the clocks were had: back to back until steady, or set through NVML"
    )
    locked_sm_mhz: int | None = optional(
        "SM clock that samples were held against; empty at boost", unit="MHz", ge=1
    )
    data: Data
    baseline: str = column("the variant that was interleaved")
    baseline_call: str | None = optional(
        "which of its library's calls the baseline was: cublasGemmEx, or cublasLtMatmul with the place of its "
        "algorithm in the heuristic's list, the fastest of them on this card; empty in older tables (cublasGemmEx)"
    )
    seed: int = column("of the inputs, and of which of a pair goes first", ge=0)
    passed: bool = column(
        "outputs of variant and baseline passed their check after timing; otherwise nothing counts"
    )
    left_out: str | None = optional("why it does not count, though both passed")
    power_w: float | None = optional(
        "energy over time while this variant ran alone; empty where it was not read, or NVML gives no energy",
        unit="W",
        ge=0,
    )
    power_error_w: float | None = optional(
        "two standard errors of that; empty in older tables", unit="W", ge=0
    )
    power_run_us: float | None = optional(
        "time of one run alone, back to back, in the same process as the baseline's",
        unit="us",
        gt=0,
    )
    temperature_c: float | None = optional(
        "of the GPU after its power was read", unit="degrees Celsius"
    )
    throttle_reasons: str | None = optional(
        "NVML clock event reasons that any poll showed while the power was read, joined by +; 'none'"
    )
    throttle_fractions: str | None = optional(
        "REASON=FRACTION of those polls that showed it, joined by +; 'none'; empty in older tables",
        pattern=r"^(none|[a-z_]+=[01]\.\d{3}(\+[a-z_]+=[01]\.\d{3})*)$",
    )
    code_hash: CodeHash
    session: str | None = optional(
        "one card on one boot of its host; empty in older tables", pattern=SESSION
    )
    ci_half_width: float | None = optional(
        "half of the 95% interval of the fraction of the baseline when the window ended, relative to it",
        ge=0,
    )
    ended: Ended | None = optional("why the window ended there")
    process: int = column("which of the fresh processes that measure the same", ge=0, default=0)
    baseline_run_us: float | None = optional(
        "time of one run of the baseline, alone, back to back at a steady clock, in the same process",
        unit="us",
        gt=0,
    )


@table("emulated_checks", "emulated-checks.csv", parts="emulate", needs_gpu=False)
@table(
    "checks",
    parts="check",
    archive="always",
)
class Checks(Row):
    """One row for each correctness case of a variant."""

    KEY = ("variant", "device", "case", "m", "n", "k")
    variant: Variant
    code_hash: CodeHash
    device: Device
    case: str = column(
        "what the case tries; 'after timing EXPERIMENT' for the outputs of timed runs"
    )
    m: M
    n: N
    k: K
    lda: Leading
    ldb: Leading
    ldc: Leading
    alpha: float
    beta: float
    seed: Count
    error_over_bound: float | None = optional(
        "largest |C - C64| over its rounding bound; empty for a refusal, and where the result is not finite",
        ge=0,
    )
    passed: bool
    detail: str = column("why it failed; for a refusal, the message", default="")


@table("algorithm_search", parts="bench", archive="if there")
class AlgorithmSearch(Row):
    """One row for each library and problem: the call that stands for it, found once by timing all
    calls. Dispatchers have such rows, too: their calls are kernels, those that are likely to be
    fastest."""

    KEY = ("baseline", "m", "n", "k", "b_layout")
    baseline: Variant
    dtype: Gemm
    m: M
    n: N
    k: K
    b_layout: Layout
    call: str = column(
        "the fastest: cublasGemmEx, cublasLtMatmul with the place of its algorithm in the heuristic's list, or a "
        "configuration of Triton's, or a dispatcher's kernel"
    )
    calls: int = column("how many there were", ge=1)
    time_us: float | None = optional(
        "median of the last round, L2 flushed; empty for a single call", unit="us", gt=0
    )
    next_call: str | None = optional("the second")
    next_time_us: float | None = optional(unit="us", gt=0)
    decided: bool | None = optional(
        "the second is slower by the 95% interval of the median ratio of times in a round"
    )


@table("gpu_medians", target="by hand", archive="if there")
class GpuMedians(Row):
    """One row for each GPU, variant and problem that was measured on several: the median over that
    GPU's processes. `python -m analysis reproduce --cards` makes it."""

    KEY = ("variant", "m", "n", "k", "clock_policy", "data", "session")
    variant: Variant
    dtype: Gemm
    baseline: str
    m: M
    n: N
    k: K
    clock_policy: ClockPolicy
    data: Data
    session: str = column("one card on one boot of its host", pattern=SESSION)
    measured: str | None = optional("when, UTC, in older archives")
    time_us_median: float = column("of the samples that count", unit="us", gt=0)
    baseline_time_us_median: float = column("of the baseline, interleaved", unit="us", gt=0)
    sm_clock_mhz: float = column("the variant's median", unit="MHz", gt=0)
    samples: int = column("the variant's that count", ge=1)
    code_hash: CodeHash


@table("predictions", parts="emulate", needs_gpu=False, archive="if there")
@table("counters", parts="profile", archive="always")
class Counters(Row):
    """One row for each variant, problem and hardware counter, under ncu's name."""

    KEY = ("variant", "m", "n", "k", "metric")
    variant: Variant
    m: M
    n: N
    k: K
    metric: str = column("ncu's name")
    value: float
    unit: str = column("ncu's unit; empty for a plain number")
    kernel: str = column("the function that ran, as ncu names it")
    code_hash: CodeHash


@table("counters_with_beta", parts="profile", archive="if there")
class CountersWithBeta(Row):
    """As counters.csv, of problems whose beta is not 0, so that C is read, too."""

    KEY = ("variant", "m", "n", "k", "beta", "metric")
    variant: Variant
    m: M
    n: N
    k: K
    beta: float = column(ge=-1000, le=1000)
    metric: str = column("ncu's name")
    value: float
    unit: str = column("ncu's unit; empty for a plain number")
    kernel: str = column("the function that ran, as ncu names it")
    code_hash: CodeHash


# ---- what needs no GPU ---------------------------------------------------------------------------


@table("resources", parts="build", needs_gpu=False, archive="always")
class Resources(Row):
    """One row for each variant and architecture, read from the cubin; compiled.csv of a worklog has
    these columns, too."""

    KEY = ("variant", "arch")
    variant: Variant
    arch: str = column(pattern=ARCH)
    compiler: str = column("nvcc and ptxas, with versions")
    source_hash: SourceHash
    code_hash: CodeHash
    registers: int = column("per thread", ge=1, le=255)
    shared_bytes: int = column(
        "per block, static and dynamic, without the driver's reserve", unit="bytes", ge=0
    )
    stack_bytes: int = column("per thread", unit="bytes", ge=0)
    spill_bytes: int = column("per thread, stores plus loads", unit="bytes", ge=0)
    threads: int = column("per block", ge=1, le=1024)
    blocks_per_sm: int = column("theoretical", ge=0)
    occupancy: float = column(
        "theoretical: resident warps over the most that an SM holds", ge=0, le=1
    )
    limiter: Literal["registers", "shared", "threads", "blocks"] = column(
        "what binds the occupancy"
    )
    sass_total: int = column(
        "instructions in the cubin; the columns below count some of them", ge=0
    )
    ffma: Count
    hmma: Count
    lds_32: int = column("32 bits or fewer", ge=0)
    lds_64: Count
    lds_128: Count
    sts_32: Count
    sts_64: Count
    sts_128: Count
    ldg_32: Count
    ldg_64: Count
    ldg_128: Count
    stg_32: Count
    stg_64: Count
    stg_128: Count
    ldgsts: int = column("cp.async", ge=0)
    ldsm: int = column("ldmatrix", ge=0)
    tex: int = column("texture fetches", ge=0)
    bar: Count


Codes = Mapping[tuple[str, str], str]  # code_hash by variant and source_hash


def code_hashes(table: Path, arch: str | None = None) -> Codes:
    """Return what builds found, as `table` (a resources.csv) has it, for one architecture or all.

    A measurement belongs to the instructions that ran and to their launch. Where sources are all
    there is, this says which machine code they stand for. Empty where there is no such table.
    """
    rows = read_rows(table, Resources) if table.is_file() else []
    return {
        (row.variant, row.source_hash): row.code_hash for row in rows if arch in (None, row.arch)
    }


@table("bounds", parts="emulate", needs_gpu=False, archive="if there")
class Bounds(Row):
    """One row for each variant, problem and unit of the GPU: the minimum cycles that its work
    takes, or an estimate.
    """

    KEY = ("variant", "m", "n", "k", "gpu", "resource")
    variant: Variant
    m: M
    n: N
    k: K
    gpu: str = column("whose rates these are: a name in ptxsim")
    resource: Literal[
        "fma",
        "fp64",
        "tensor",
        "issue",
        "registers",
        "shared",
        "l1",
        "l2",
        "dram",
        "tail",
        "issue_model",
    ] = column(
        "the unit. tail is the largest bound, of the SM with the most blocks. l2 and issue_model are estimates by "
        "rules that are only models: no bounds. A unit whose work only an estimate of executions tells has no row"
    )
    minimum_cycles: float = column("averaged over SMs", unit="SM clocks", gt=0)
    amount: float = column("work of the whole launch", ge=0)
    unit: str = column("of the amount")
    disagreement: float = column(
        "fraction of the matched executions on which SASS and PTX differ", ge=0
    )
    code_hash: CodeHash


@table("shared_widths", parts="emulate", needs_gpu=False)
class SharedWidths(Row):
    """One row for each kernel, source line and opcode: the widths of the shared-memory accesses
    there.
    """

    KEY = ("variant", "file", "line", "opcode")
    variant: Variant
    file: str = column("of the source line")
    line: Count
    opcode: Literal["LDS", "STS"]
    predicted: str = column(
        "instructions by bits of a thread, as ptxsim predicts them from the PTX: 8 x 32, 2 x 128"
    )
    found: str = column(
        "the same in the cubin; ptxas may unroll a loop further, which multiplies them alike"
    )
    agree: bool = column("the widths are the same, and the counts but for such a factor")


# ---- what need not be there ----------------------------------------------------------------------


@table(
    "emulator_next_to_gpu",
    archive="if there",
)
class EmulatorNextToGpu(Row):
    """One row for each variant and case that ran on the GPU and on the emulator with the same
    inputs.
    """

    KEY = ("variant", "case")
    variant: Variant
    dtype: str
    case: str
    m: M
    n: N
    k: K
    lda: Leading
    ldb: Leading
    ldc: Leading
    alpha: float
    beta: float
    seed: Count
    elements: int = column("of C", ge=1)
    differing: int = column("elements of C that differ in any bit", ge=0)
    difference_over_bound: float | None = optional(
        "largest difference over twice the rounding bound; empty where it is not finite", ge=0
    )
    passed: bool = column(
        "no bit differs in fp32; within twice the bound for what tensor cores compute"
    )
    code_hash: CodeHash


@table(
    "sanitizer",
    target="sanitize",
    archive="if there",
)
class Sanitizer(Row):
    """One row for each kernel and tool of NVIDIA's compute-sanitizer."""

    KEY = ("variant", "tool")
    variant: Variant
    tool: Literal["memcheck", "racecheck", "initcheck", "synccheck"]
    launches: int = column("problems that it ran on", ge=1)
    errors: int = column("errors or hazards reported", ge=0)
    detail: str | None = optional("the first thing reported")
    passed: bool = column("nothing was reported")
    code_hash: CodeHash


@table("tuning", target="tile_autotune", parts="tune", archive="if there")
class Tuning(Row):
    """One row for each configuration of a sweep over tiles, also of those that were left out or
    failed.
    """

    KEY = ("kernel", "BM", "BN", "BK", "WM", "WN", "WNITER", "TM", "TN", "threads", "size")
    kernel: str = column("entry of kernels/catalogue.yaml whose template is swept")
    BM: int = column("the block's tile", ge=1)
    BN: int = column(ge=1)
    BK: int = column(ge=1)
    WM: int | None = optional(
        "a warp's part of it; empty for a kernel without one, as the next two", ge=1
    )
    WN: int | None = optional(ge=1)
    WNITER: int | None = optional("subtiles of it along n", ge=1)
    TM: int = column("a thread's patch of C", ge=1)
    TN: int = column(ge=1)
    threads: int = column("per block", ge=0)
    valid: bool = column("meets every restriction")
    reason: str | None = optional(
        "why there is no time: the first restriction of experiments/tuning/space.py that it breaks, or what failed "
        "when it was built, checked or run"
    )
    arch: str | None = None
    compiler: str | None = optional("nvcc and ptxas, with versions")
    registers: int | None = optional("per thread", ge=1, le=255)
    stack_bytes: int | None = optional("per thread, spills among them", unit="bytes", ge=0)
    spill_bytes: int | None = optional("per thread, stores plus loads", unit="bytes", ge=0)
    shared_bytes: int | None = optional("per block", unit="bytes", ge=0)
    occupancy: float | None = optional("theoretical", ge=0, le=1)
    size: int | None = optional("m = n = k; empty where it was not timed", ge=1, le=LARGEST)
    round: Annotated[Literal[1, 2], BeforeValidator(_integer)] | None = optional(
        "2: among the best of the first round, measured again with more samples"
    )
    samples: int | None = optional("kept", ge=0)
    time_us: float | None = optional("median", unit="us", gt=0)
    tflops: float | None = optional(unit="TFLOP/s", gt=0)
    fraction_of_cublas: float | None = optional(
        "median time of the cuBLAS calls between the samples, over time_us", gt=0
    )
    sm_clock_mhz: float | None = optional("median over the samples, from device stamps", **MHZ)
    checked: bool | None = optional(
        "one correctness case and the output of the timed runs passed; empty: not run"
    )
    source_hash: str | None = optional(
        "of the source with these template values, as in variants.csv"
    )


# ---- side studies --------------------------------------------------------------------------------


@table(
    "error_over_k",
    target="error_over_k",
    emulates=True,
    archive="if there",
)
class ErrorOverK(Row):
    """One row for each variant, kind of data and k; beta = 0. Errors are |C - C64| in units of
    2^-24 |A||B|, elementwise."""

    KEY = ("variant", "device", "data", "k")
    variant: Variant
    code_hash: CodeHash
    device: Device
    data: Literal["uniform", "normal", "positive", "wide"] = column(
        "uniform on [-1, 1]; standard normal; uniform on [0, 1]; of either sign, exponents uniform from -30 to 30"
    )
    k: K
    elements: int = column("of C that were looked at", ge=1)
    worst: float = column(ge=0)
    rms: float = column("root of the mean square", ge=0)


@table(
    "ffma_issue",
    target="ffma_issue",
    archive="if there",
)
class FfmaIssue(Row):
    """One row for each loop of FFMAs on one SM, its addresses and number of warps: the cycles of an
    iteration.
    """

    KEY = ("loop", "placement", "lanes", "warps")
    loop: str = column(
        "a kernel of ffma_issue.cu, or an order of ffma_orders.py, whose names say which banks a, b and c lie in: "
        "e even, o odd registers, . kept with .reuse"
    )
    beside: Literal["nothing", "load", "copy", "bulk"] = column(
        "what is beside the FFMAs: loads from shared memory, cp.async, or cp.async.bulk of one thread (1024 bytes)"
    )
    bits: Annotated[Literal[32, 64, 128], BeforeValidator(_integer)] | None = optional(
        "of a thread's load or copy"
    )
    count: int = column("loads or copies an iteration of a warp (bulk copies of the block)", ge=0)
    placement: Literal["ptxas", "burst", "spread"] | None = optional(
        "where loads stand: as ptxas has them, together before the first FFMA, or evenly over the first three quarters"
    )
    lanes: str | None = optional(
        "which lanes' addresses are the same, all others being distinct: of loads in shared memory, of copies in "
        "global memory; a key of PATTERNS or SOURCES in ffma_issue.py"
    )
    warps: Annotated[Literal[4, 8, 16], BeforeValidator(_integer)] = column(
        "of the block: 1, 2 or 4 a scheduler"
    )
    wavefronts: int | None = optional("of a load by ptxsim's rules", ge=1)
    ffma: int = column("FFMAs in the loop's machine code", ge=1)
    instructions: int = column("in the loop's machine code, all", ge=1)
    reads_even: int = column(
        "operands of FFMAs in even registers, without those that the instruction before kept in the same slot",
        ge=0,
    )
    reads_odd: int = column("the same in odd registers", ge=0)
    modelled: int = column(
        "issue cycles of an iteration by the rule of register banks in docs/hardware.md; a load or copy is one",
        ge=1,
    )
    places: str | None = optional(
        "of loads and copies among the loop's instructions, from 0, joined by blanks"
    )
    operands: str | None = optional(
        "of a loop with nothing beside: the registers d, a, b, c of each FFMA, * behind one that is kept with .reuse, "
        "other instructions by opcode, joined by semicolons"
    )
    cycles: float = column(
        "of an iteration of all warps, from clock64: difference of 320 and 64 iterations, medians of 5",
        unit="SM clocks",
        gt=0,
    )
    issue_cycles: float = column("cycles over warps a scheduler", gt=0)
    extra: float | None = optional(
        "issue cycles of a load or copy: issue_cycles less those of the same loop without them, over count"
    )


@table(
    "inter_warp_conflicts",
    target="inter_warp_conflicts",
    archive="if there",
)
class InterWarpConflicts(Row):
    """One row for each launch of inter_warp_conflicts.cu: shared-memory wavefronts as ncu counted
    them and as the addresses within each warp call for."""

    KEY = ("kernel", "bits", "source", "warps", "blocks_per_sm")
    kernel: str = column("of inter_warp_conflicts.cu; a catalogue kernel by its name in the source")
    bits: Annotated[Literal[32, 128], BeforeValidator(_integer)] | None = optional(
        "of a thread's accesses; empty for a catalogue kernel, which has several"
    )
    source: (
        Literal["L1", "L2", "L1 scattered", "L2 scattered", "A and B", "A", "B", "neither"] | None
    ) = optional(
        "where global loads find their data, and whether the lanes of a warp read rows of 128 bytes or more or are "
        "scattered over rows of 32; of a catalogue kernel, the matrices of which it reads more than one row; empty "
        "where there are no global loads"
    )
    warps: int = column("of a block", ge=1, le=32)
    blocks_per_sm: int = column("that run on each SM at the same time", ge=1)
    steps: int = column("of the tile loop", ge=1)
    loads: int = column("shared-memory load instructions, executed by warps", ge=0)
    stores: int = column("shared-memory store instructions, executed by warps", ge=0)
    load_wavefronts: float = column("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", ge=0)
    store_wavefronts: float = column("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", ge=0)
    load_conflicts: float = column("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", ge=0)
    store_conflicts: float = column(
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", ge=0
    )
    loads_need: int = column("wavefronts of loads by ptxsim's rules within a warp", ge=0)
    stores_need: int = column("wavefronts of stores by ptxsim's rules within a warp", ge=0)
    cycles: float = column("sm__cycles_active.max", gt=0)


@table(
    "smem_microbench",
    target="smem_microbench",
    archive="if there",
)
class SmemMicrobench(Row):
    """One row for each kind of shared-memory access and pattern of addresses: what ncu counted for
    one such access.
    """

    KEY = ("access", "pattern")
    access: str = column("a kernel of smem_microbench.cu")
    pattern: str
    threads: int = column("one warp, unless the pattern is about several", ge=32, le=1024)
    offsets: str = column("byte offset of each thread in shared memory, joined by blanks")
    source: str = column("for a copy, byte offset of each thread in global memory", default="")
    wavefronts: float = column(
        "shared-memory wavefronts per access by a warp, without what an empty launch has, "
        "l1tex__data_pipe_lsu_wavefronts_mem_shared",
        ge=0,
    )
    conflicts: float = column(
        "bank conflicts per access by a warp, l1tex__data_bank_conflicts_pipe_lsu_mem_shared", ge=0
    )


@table(
    "timing_methods",
    target="cross_validation",
    archive="if there",
)
class TimingMethods(Row):
    """One row for each variant, size and way of timing, all in one process."""

    KEY = ("variant", "m", "n", "k", "protocol")
    variant: Variant
    m: M
    n: N
    k: K
    protocol: str
    description: str = column("what it does")
    time_us: float = column("what it reports for one launch", unit="us", gt=0)
    sm_clock_mhz: float | None = optional("median during it; empty where it takes no stamps", **MHZ)
    replays: int = column(ge=1)
    code_hash: CodeHash


@table(
    "api_calls",
    target="api_calls",
    archive="if there",
)
class ApiCalls(Row):
    """One row for each CUDA call, kernel and copy of a benchmark program, as CUPTI recorded it.

    Calls of the operating system are not recorded, nor is the making of events.
    """

    KEY = ("variant", "kind", "name", "n")
    variant: Variant
    kind: Literal["context", "api", "copy", "kernel", "launch"] = column(
        "allocations before the recording, by the host's clock: the first one makes the context; "
        "calls of the host; copies and kernels on the GPU; the calls that launch, by size"
    )
    name: str = column("of a launch: the first one of its size, or the later ones")
    n: int | None = optional("of a launch: m = n = k", ge=1, le=LARGEST)
    calls: int = column(ge=1)
    bytes: int | None = optional("copied", unit="bytes", ge=0)
    share: float | None = optional("of the time of all rows of its kind", ge=0, le=1)
    total_us: float = column(unit="us", ge=0)
    mean_us: float = column(unit="us", ge=0)
    median_us: float = column(unit="us", ge=0)
    min_us: float = column(unit="us", ge=0)
    max_us: float = column(unit="us", ge=0)
    stddev_us: float | None = optional("of a sample; empty for one call", unit="us", ge=0)
    code_hash: CodeHash


@table(
    "library_kernels",
    target="api_calls",
    archive="if there",
)
class LibraryKernels(Row):
    """One row for each kernel that one call of a library runs, as CUPTI recorded it."""

    KEY = ("variant", "m", "n", "k", "rank")
    variant: Variant
    m: M
    n: N
    k: K
    rank: int = column("1: the longest of the call's kernels", ge=1)
    kernels: int = column("that the call runs", ge=1)
    kernel: str
    grid_x: int = column("blocks", ge=1)
    grid_y: int = column(ge=1)
    grid_z: int = column("more than 1 where k is divided among blocks", ge=1)
    threads: int = column("of a block", ge=1, le=1024)
    time_us: float = column("least of several calls", unit="us", gt=0)
    code_hash: CodeHash


# ---- files of no GPU, and what a run keeps for itself --------------------------------------------


class Variants(Row):
    """results/variants.csv: one row for each entry of kernels/catalogue.yaml, in its order, with
    the hash of its source in this tree. What machine code that stands for, resources.csv says."""

    KEY = ("variant",)
    variant: str
    kind: Literal["kernel", "dispatcher", "baseline"] = column(
        "a dispatcher runs each problem with one of several kernels"
    )
    family: str = column("folder of the source, or 'library'")
    dtype: Gemm
    tensor: bool = column("on tensor cores")
    label: str = column("short name for figures")
    idea: str
    builds_on: str | None = None
    baseline: str
    source: str | None = None
    origin: str | None = optional("WORKLOG: SECTION of the text that it comes from")
    requires: str = column("what it asks of a problem", default="")
    tile_m: int | None = optional("rows of C that a block of threads computes; kernels only", ge=1)
    tile_n: int | None = optional("columns of C that it computes", ge=1)
    tile_k: int | None = optional("steps over k between two loads of tiles", ge=1)
    threads: int | None = optional("of a block", ge=1)
    stages: int | None = optional("tiles of A and of B that shared memory holds at a time", ge=0)
    cluster: str | None = optional("blocks of a cluster down and across C, where it has several")
    sums: str | None = optional(
        "who has which sums: m: 8 thread, 8 lane, 2 warp; n: ... (contracts/declared.py, `Sums`)"
    )
    template: str | None = optional("template values in order, as NAME=VALUE")
    choices: str | None = optional(
        "of a dispatcher: its kernels and from which sizes each is taken; the first that suits"
    )
    kernels: str | None = optional("of a dispatcher: the names of its kernels, joined by spaces")
    source_hash: str = column(
        "of a kernel: hash of source, included headers, template values and launch, without comments and white space; "
        "of a dispatcher: of its choices and its model of time; of a library: of the entry and its source, if there"
    )


class Analytic(Row):
    """results/analytic.csv: one row for each case of a worklog's analytic.yaml and quantity."""

    KEY = ("case", "quantity")
    case: str
    quantity: str = column(
        "occupancy is a fraction; degree: the most distinct words that one bank gives in what is served together; "
        "banks: how many distinct ones; begins_at: an address in shared memory; misplaced_bytes: those that a switch "
        "sends elsewhere than to the other slot"
    )
    value: Annotated[float | str, Field(union_mode="left_to_right")]


class Emulated(Row):
    """paper/worklogs/NAME/emulated.csv: one row for each counter and problem that source.yaml names
    under `emulated`."""

    KEY = ("variant", "size", "beta", "metric")
    variant: Variant
    size: int = column("m = n = k", ge=1)
    beta: float
    arch: str = column("that it was compiled for")
    metric: str = column("ncu's name")
    value: float
    source_hash: SourceHash


class Toolchain(Document):
    """toolchain.json: compilers, driver and GPU.

    Everything that is built or measured depends on it.
    """

    nvcc: str
    ptxas: str
    host_compiler: str
    cuobjdump: str
    driver: str | None
    gpu: str | None
    arch: str = column(pattern=ARCH)


class MeasuredRows(Document):
    """The rows of one measurement, by table, without the columns that an experiment adds: an empty
    `experiment`, and a `case` without its beginning."""

    windows: list[Windows] = column(default_factory=list)
    checks: list[Checks] = column(default_factory=list)
    algorithm_search: list[AlgorithmSearch] = column(default_factory=list)
    counters: list[Counters] = column(default_factory=list)
    counters_with_beta: list[CountersWithBeta] = column(default_factory=list)
    emulator_next_to_gpu: list[EmulatorNextToGpu] = column(default_factory=list)
    machine: Machine | None = optional()


class StoredMeasurement(Document):
    """measured/STAGE/VARIANT/ITEM.SESSION.json: one measurement, as `experiments.stages.store`
    keeps it. Further keys are those of earlier versions."""

    model_config = ConfigDict(extra="allow")
    stage: str = column(pattern="^[a-z]+$")
    variant: Variant
    item: str = column("the problem, and what else distinguishes measurements of one variant")
    fingerprint: dict[str, Any] = column(
        "what the result rests on: hashes, versions, protocol; of another it is not taken"
    )
    session: str = column("one card on one boot of its host", pattern=SESSION)
    measured: str = column("when it was kept, UTC")
    rows: MeasuredRows
    note: str = column("why there are no rows, or what is missing in them; empty otherwise")
    driver: str | None = column("of the GPU")
    commit: str | None = optional("of the tree that measured; null where that differed from it")
    samples_sha256: str = optional("of ITEM.SESSION.parquet", pattern=SHA256)


class Manifest(Document):
    """parts/STAGE/…json: the stored measurements that a job made or found, in the order of their
    rows."""

    experiment: str = column("that timed them; empty for other stages")
    measurements: list[str] = column("paths in the store, without suffix")
    left_out: dict[str, list[str]] = column("stage that did not run, or not whole, and why")


class Origin(Run):
    """The run that an archived file is from, and its checksum."""

    sha256: str = column("of the file as it was archived", pattern=SHA256)


class Archived(RootModel[dict[str, Origin]]):
    """archived.json: the origin of each archived file."""


class ServedWord(Document):
    """A word that a bank gives, and the lanes that want it."""

    bank: int = column(ge=0, le=31)
    lanes: list[int] = column(min_length=1)


class ServedPart(Document):
    """Lanes that are served by themselves."""

    name: str = column("what it is of the access; empty: all of it")
    wavefronts: list[list[ServedWord]] = column("each with at most one word a bank")


class RecordedAccess(Document):
    """One execution of an access to shared memory by a warp, as ptxsim.banks.Access has it."""

    file: str = column("as the line information names it; in a picture, below kernels/")
    line: int = column(ge=1)
    source: str = column("the text of that line")
    instruction: str = column("its name in the PTX")
    kind: Literal["ld", "st", "atom", "ldmatrix", "cp_async"]
    bits: int = column("that a lane loads or stores")
    wavefronts: int = column("that the access takes")
    ideal: int = column("that would do without a conflict")
    summary: str = column("the same in words")
    about: list[str] = column("which execution it is, a line each")
    parts: list[ServedPart]


class PicturedAccess(Document):
    """An access of one variant that a picture shows, as ptxsim recorded it."""

    picture: str = column("name in workflow/bank_pictures.yaml")
    place: int = column("among the picture's accesses", ge=0)
    access: RecordedAccess


class BankAccesses(RootModel[list[PicturedAccess]]):
    """bank_accesses.json: the accesses to shared memory of one variant that pictures show."""


class ShownAccess(RecordedAccess):
    """An access of a picture."""

    variant: Variant
    label: str = column("of the variant in figures")
    says: str


class BankPicture(Document):
    """results/figures/banks_NAME.json: what a picture of accesses shows, as ptxsim counts it for
    one warp.
    """

    title: str
    text: str
    accesses: list[ShownAccess]


class LensLanes(Document):
    """The lanes of one warp at an access, at its first execution."""

    warp: int = column("its number in the block", ge=0)
    addresses: list[int | None] = column(
        "32 byte addresses, null where a lane is not active: of shared memory within the block's, "
        "of global memory from the 128-byte line of the smallest one"
    )


class LensAccess(Document):
    """An instruction of the PTX that accesses memory, and what it costs in the whole launch."""

    ptx_line: int = column(ge=1)
    instruction: str = column("its name in the PTX")
    chain: int | None = column("index of `chains`; null where its line is not known")
    space: Literal["shared", "global", "local"]
    kind: Literal["ld", "st", "atom", "ldmatrix", "cp_async", "bulk_ld", "bulk_st", "wgmma"]
    width: int = column("a lane accesses, merged as ptxas does", unit="byte")
    executed: int = column("times, by warp")
    requests: int = column("by warps with a thread that accessed memory")
    wavefronts: int = column("of shared memory")
    ideal: int = column("wavefronts that would do without a conflict")
    ways: int = column("the worst conflict of a request; 0 where it has no wavefronts")
    sectors: int = column("of global or local memory, 32 bytes each")
    ideal_sectors: int = column("sectors that the bytes fill")
    used: int = column("distinct bytes wanted of the sectors", unit="byte")
    merged_loads: float = column("wide loads that take two cycles more to issue")
    merged_into: int | None = column("line of the PTX whose wide load does its work, too")
    shared: LensLanes | None = column("null where no warp's lanes address it")
    global_: LensLanes | None = column("the same of global memory", alias="global")


class Lens(Document):
    """lens/NAME.json: a kernel's source, PTX and machine code, and what each line costs.

    A chain is a line of the source, then the line that calls its function where that is inlined,
    and so on, as [index of `files`, line]. A line of the PTX is [number, text, chain]; one of the
    machine code is [address, text, line of the PTX, chain, executions by warp, cycles to issue],
    and a label has no address.
    """

    variant: str
    label: str
    dtype: str
    idea: str
    builds_on: str | None = column("the rung that it is compared with")
    source: str | None = column("of `files`, the kernel's own; null where no code is of it")
    launch: str = column("whose costs these are, in words")
    unknown: str | None = column("why the costs are not predicted")
    files: list[str] = column("of the project and of the kernel's own folder")
    sources: dict[str, str] = column("the text of each of these files")
    chains: list[list[list[int]]]
    ptx: list[list[int | str | None]]
    sass: list[list[int | str | float | None]]
    accesses: list[LensAccess]
    totals: dict[str, float] = column("counters of the launch, by ncu's names")
    gpu: str = column("whose minimum cycles these are")
    cycles: dict[str, float] = column("minimum cycles an SM by unit; empty where not known")
    checks: list[str] = column("how its checks went, a line each, the failures first")
    passed: bool
