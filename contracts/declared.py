"""The files that a person writes: configuration, catalogue, experiments, worklogs and what they
compare.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, RootModel

from contracts.dtypes import dtypes
from contracts.model import Document, Row, column, optional
from contracts.rows import ARCH, LARGEST, SHA256, Data, Layout


def _each_once(values: list[Any]) -> list[Any]:
    if len(values) != len(set(map(repr, values))):
        raise ValueError("each item once")
    return values


def _known_dtype(name: str) -> str:
    if name not in dtypes():
        raise ValueError(f"one of {', '.join(dtypes())}")
    return name


NonEmptyNames = Annotated[list[str], Field(min_length=1), AfterValidator(_each_once)]
Folder = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
FileName = Annotated[str, Field(min_length=1, max_length=4096)]
Size = Annotated[int, Field(ge=1, le=32768)]
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
# a template parameter's name
Parameter = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
# Arithmetic on template parameters, such as a parameter's name
Arithmetic = Annotated[str, Field(pattern="^[A-Za-z0-9_ +*/()-]{1,240}$")]
Extent = Positive | Arithmetic
Dtype = Annotated[str, AfterValidator(_known_dtype)]


# ---- configuration and experiments ---------------------------------------------------------------


class Config(Document):
    """config.yaml, which says what each key is for and has its default."""

    machine: Folder | None
    archive: Folder
    mode: Literal["auto", "measure", "redraw"]
    arch: Annotated[str, Field(pattern=ARCH, max_length=16)]
    nvcc: FileName | None
    gpu_node: FileName | None
    sizes_step: Annotated[int, Field(ge=128, le=32768, multiple_of=128)] | None
    lock_clocks: bool
    lock_sm_mhz: Annotated[int, Field(ge=1, le=10_000)] | None
    lock_memory_mhz: Annotated[int, Field(ge=1, le=100_000)] | None
    variants: NonEmptyNames | None
    variant_a: str | None
    variant_b: str | None


class SizeRange(Document):
    """Sizes from first to last, in steps."""

    first: Size
    last: Size
    step: Size


Exponents = Annotated[list[Annotated[float, Field(ge=0, le=15)]], Field(min_length=2, max_length=2)]
ProblemText = Annotated[str, Field(pattern="^[0-9]+(x[0-9]+x[0-9]+)?(,|$)")]
# m = n = k, or MxNxK with alpha, beta and the layout of B after commas: 64x4096x512,beta=1
Problems = Annotated[list[Size | ProblemText], Field(min_length=1), AfterValidator(_each_once)]


Extents = Annotated[list[Positive], Field(min_length=1), AfterValidator(_each_once)]
WeightShape = Annotated[list[Positive], Field(min_length=2, max_length=2)]


class ProblemGrid(Document):
    """Each m with each (n, k): layers of a model, whose weights are n and k, with several numbers
    of rows.
    """

    m: Extents
    nk: Annotated[list[WeightShape], Field(min_length=1), AfterValidator(_each_once)] = column(
        "pairs of n and k"
    )


class AxisExponents(Document):
    """Ranges of exponents of their own for m, n and k."""

    m: Exponents
    n: Exponents
    k: Exponents


class RandomProblems(Document):
    """Problems drawn at random, the same ones for the same seed: the logarithms of m, n and k are
    uniform.
    """

    count: int = column(ge=1, le=1000)
    seed: int = column(ge=0)
    log2: Exponents | AxisExponents = column(
        "smallest and largest base-2 logarithm, of m, n and k alike or of each"
    )
    multiple: int = column("m, n and k are rounded to multiples of this", ge=1, le=4096, default=1)


class ExperimentFile(Document):
    """experiments/NAME.yaml: what an experiment measures.

    What is left out is as in `declarations.Experiment`.
    """

    title: str
    question: str = column("what its figure answers")
    variants: NonEmptyNames = column("names in kernels/catalogue.yaml")
    sizes: (
        Annotated[list[Size], Field(min_length=1), AfterValidator(_each_once)] | SizeRange | None
    ) = optional("m = n = k: a list, or first, last and step")
    problems: Problems = optional(
        "further problems that are timed, each as it is written on a command line"
    )
    grid: ProblemGrid = optional("further problems: each of several m with each of several (n, k)")
    random: RandomProblems = optional()
    profile: Problems = optional(
        "problems of which ncu reads the counters; with beta other than 0, C is read"
    )
    data: Data | Annotated[list[Data], Field(min_length=1), AfterValidator(_each_once)] | None = (
        optional("inputs; several kinds are timed one after another at each size")
    )
    flush_l2: bool = column("overwrite the L2 cache before each sample", default=True)
    warmup_s: float = optional(
        "back-to-back runs before the first sample of a process", unit="s", ge=0, le=60
    )
    window_s: float = optional(
        "the longest time that a process samples a variant and its baseline", unit="s", gt=0, le=600
    )
    samples: int = optional("the most samples of each of them in a process", ge=5, le=10_000)
    precision: float = optional(
        "a window ends before its longest time once half of the 95% interval of the fraction of the baseline is at "
        "most this part of it",
        gt=0,
        le=1,
    )
    isolated: bool = column(
        "also run the variant alone and its baseline alone, which takes 0.2 s of each process, for the isolated "
        "fraction",
        default=True,
    )
    power_s: float = optional(
        "the longest time over which the power of a variant that runs alone is averaged, in two processes; 0: not read",
        unit="s",
        ge=0,
        le=600,
    )
    processes: int = optional(
        "fresh processes that measure each row, one after the other: its interval is what they differ by",
        ge=1,
        le=20,
    )
    by_name: bool = column(
        "no part of `all`: measured where its name is given; its rows then join the other tables",
        default=False,
    )


Values = Annotated[
    list[Annotated[int, Field(ge=1, le=65536)]], Field(min_length=1), AfterValidator(_each_once)
]


class Tune(Document):
    """experiments/tuning/tile_autotune.yaml: a sweep over template values.

    Every combination is a configuration.
    """

    size: int = column("m = n = k", ge=128, le=32768)
    also: dict[Literal["sgemm_autotuned", "sgemm_warptile"], list[int]] = column(
        "kernel to the further sizes at which it is swept, too", default={}
    )
    data: Data
    flush_l2: bool = column("overwrite the L2 cache before each sample")
    samples: int = column(
        "of each configuration, and as many of its baseline between them", ge=5, le=1000
    )
    finalists: int = column(
        "of each kernel: the best ones, measured a second time; the winner is the best of these then",
        ge=1,
        le=1000,
    )
    final_samples: int = column(ge=5, le=1000)
    kernels: dict[
        Literal["sgemm_autotuned", "sgemm_warptile"],
        Annotated[dict[str, Values], Field(min_length=1)],
    ] = column(
        "kernel to the values of its template parameters, in the template's order", min_length=1
    )


# ---- kernels/catalogue.yaml ----------------------------------------------------------------------


class Origin(Document):
    """The worklog that a kernel comes from."""

    worklog: str = column("its folder in paper/worklogs/", pattern="^[a-z][a-z0-9_]*$")
    section: str = column("of its text")


class TypesEntry(Document):
    """The dtypes of A and B, of the sums, and of C; `dtype` in its place is that of all matrices,
    with fp32 sums.
    """

    ab: Dtype
    accumulate: Dtype
    c: Dtype


class Tile(Document):
    """What one block computes of C (m, n) and one step of its loop over k."""

    m: Extent
    n: Extent
    k: Extent


Share = Annotated[
    str, Field(pattern="^[A-Za-z0-9_ +*/()-]{1,120} (thread|lane|warp)([*][0-9]{1,3})?$")
]


class Sums(Document):
    """Who has which sums of the tile: its rows (m) and columns (n) as factors, innermost first.

    "8 thread", "4 lane", "2 warp": a thread has 8 neighbours, 4 lanes follow each other, and so do
    2 warps. Lanes and warps are numbered along n first; "2 lane*16" says that these two are 16
    apart, "lane*0" that they are numbered otherwise.
    """

    m: list[Share]
    n: list[Share]


class Multiples(Document):
    """What the problem's numbers must be multiples of."""

    m: Extent = optional()
    n: Extent = optional()
    k: Extent = optional()
    lda: Positive = optional()
    ldb: Positive = optional()
    ldc: Positive = optional()


class TensorMap(Document):
    """const __grid_constant__ CUtensorMap, over the whole matrix."""

    box: Annotated[
        list[Annotated[int, Field(ge=1, le=256)] | Arithmetic], Field(min_length=2, max_length=2)
    ] = column("rows and columns that one instruction moves")
    swizzle: Literal[0, 32, 64, 128] = column(default=0, unit="bytes")
    l2_promotion: int | Arithmetic = column("0, 64, 128 or 256", default=0, unit="bytes")


def _one_key(value: Document) -> Document:
    if len(value.model_fields_set) != 1:
        raise ValueError("one key")
    return value


class Workspace(Document):
    """Device memory of the kernel's own."""

    bytes: Annotated[int, Field(ge=1, le=2**30)] | Arithmetic | None = None
    bytes_per_block: Annotated[int, Field(ge=1, le=2**24)] | Arithmetic | None = None
    zeroed: Literal["never", "once", "always"] = column(
        "once: before the first launch, and each launch leaves it zero; always: before each",
        default="never",
    )


class Argument(Document):
    """A parameter of a kernel with something to say about it: one of these keys."""

    tma_a: TensorMap = optional()
    tma_b: TensorMap = optional()
    tma_c: TensorMap = optional()
    workspace: Workspace = optional()
    flags: Workspace = optional()


PlainArgument = Literal[
    "m",
    "n",
    "k",
    "alpha",
    "A",
    "lda",
    "B",
    "ldb",
    "beta",
    "C",
    "ldc",
    "tex_a",
    "tex_b",
    "tile_counter",
]
TypeName = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_:]{0,63}$")]
TemplateValue = bool | Annotated[int, Field(ge=0, le=LARGEST)] | TypeName
InCluster = Annotated[int, Field(ge=1, le=8)] | Arithmetic
AlignBytes = Literal[1, 2, 4, 8, 16, 32, 64, 128, 256]


class VariantEntry(Document):
    """A kernel of the catalogue."""

    source: str = column(
        "the .cu file, FAMILY/NAME.cu below kernels/",
        pattern="^[a-z][a-z0-9_]*/[A-Za-z0-9_]+[.]cu$",
    )
    entry: str = optional(
        "the __global__ template; when left out, FAMILY_STEM of the source, sgemm_naive for sgemm/naive.cu",
        pattern="^[A-Za-z_][A-Za-z0-9_]{0,127}$",
    )
    template: dict[Parameter, TemplateValue] = column(
        "template arguments, in order: numbers, truths or names of types"
    )
    threads: Extent = column("of the one-dimensional block, a multiple of 32")
    shared_bytes: Annotated[int, Field(ge=0)] | Arithmetic = optional(
        "dynamic shared memory per block"
    )
    dtype: Dtype = optional("of A, B and C, with fp32 sums; or `types`")
    types: TypesEntry = optional()
    narrowing: Literal["truncate", "nearest"] = optional(
        "of a tf32 kernel: how it makes 19 bits of 32; truncate when left out"
    )
    tile: Tile
    sums: Sums | None = optional("drawn in the explorer")
    stages: Annotated[int, Field(ge=0)] | Arithmetic = optional(
        "tiles of A and of B that shared memory holds at a time; when left out, template value STAGES or 1"
    )
    raster: Literal["mn", "nm"] = column("which axes of C blockIdx.x and blockIdx.y run over")
    multiples: Multiples = optional()
    align_bytes: AlignBytes = optional("alignment of A, B and C; with textures, of A and B")
    b_layout: Layout = optional(
        "of B in memory: its rows, or its columns, are contiguous and ldb apart; row when left out. Everything that "
        "makes, reads or refuses a problem follows it, and its baseline takes B in that layout"
    )
    textures: bool = optional(
        "A and B also come through texture objects: the kernel has two more arguments at its end, (cudaTextureObject_t "
        "tex_a, cudaTextureObject_t tex_b), 1-D over linear memory with float4 elements; a texture begins at the last "
        "multiple of 512 bytes at or before its matrix and ends with the texel that holds the last element. Needs "
        "dtype fp32, lda and ldb multiples of 4 and 16-byte aligned A and B. The host makes them when a problem is "
        "bound"
    )
    arguments: Annotated[
        list[PlainArgument | Annotated[Argument, AfterValidator(_one_key)]],
        Field(min_length=1, max_length=32),
    ] = optional(
        "the kernel's parameters, in order; when left out, the signature that kernels/catalogue.yaml begins with. "
        "tile_counter: unsigned*, zero before each launch"
    )
    stream_k: bool = optional(
        "several blocks of a persistent kernel may compute one tile: there are as many as run at a time, even where "
        "there are fewer tiles"
    )
    blocks_per_sm: Extent = optional(
        "blocks of an SM: the grid has as many as run at a time, in x, and each block takes several tiles"
    )
    cluster: Annotated[list[InCluster], Field(min_length=2, max_length=2)] | None = optional(
        "blocks of a cluster in x and y, as the source's __cluster_dims__ has it: the grid is made of whole clusters"
    )
    splits: Annotated[int, Field(ge=1, le=8)] | Arithmetic | None = optional(
        "blocks of a cluster in z, which divide the steps over k of one tile; 1 when left out"
    )
    tensor_cores: bool = optional(
        "its arithmetic is on tensor cores; when left out, as its dtype's"
    )
    cooperative: bool = optional("a cooperative launch: all blocks run at a time")
    arch: (
        Annotated[int, Field(ge=50, le=999)] | Annotated[str, Field(pattern="^[1-9][0-9]{1,2}a$")]
    ) = optional(
        "lowest compute capability, 80 for 8.0; 75 when left out, nvcc 13's lowest; 90a: features that 9.0 alone has, "
        "built for sm_90a and nothing else"
    )
    builds_on: str | None = optional("the rung before, if any")
    idea: str = column("what it adds to that, in a few words")
    origin: Origin | None = optional(
        "the worklog that it comes from; none for a kernel of your own"
    )
    baseline: str = column("timed alternately with it")


class AtLeast(Document):
    """The smallest sizes from which a choice is taken."""

    m: Positive = optional()
    n: Positive = optional()
    k: Positive = optional()


class Choice(Document):
    """A variant that a dispatcher may take."""

    variant: str
    at_least: AtLeast = optional()


class DispatcherEntry(Document):
    """An entry that runs each problem with one of several variants: the first whose sizes are
    reached and which does not refuse the problem."""

    choices: list[Choice] = column(min_length=1)
    predicted: bool = optional(
        "the choice whose predicted time is shortest (kernels/cost.py) is taken"
    )
    any_tile: bool = optional(
        "where it is measured, the likeliest tiles (kernels/tile_choice.py) are compiled and timed, too"
    )
    builds_on: str | None = optional("the rung before, if any")
    idea: str = column("what it adds to that, in a few words")
    origin: Origin | None = None


class TileTimes(Document):
    """What tiles of hgemm/wgmma_tile.cu take on a GPU; tile_times.yaml explains the keys."""

    start_us: float
    store_us: float
    multiply_adds: float
    l2_bytes: float
    dram_bytes: float
    step_us: float
    slice_us: float
    eight_us: float
    ragged: float
    large_clusters: Annotated[float, Field(gt=0, le=1)]


class TileTimesFile(RootModel[dict[str, TileTimes]]):
    """tile_times.yaml, by the name of the GPU."""


class BaselineEntry(Document):
    """A library that kernels are timed against."""

    library: Literal["cublas", "cublaslt", "torch", "triton"] = column(
        "cublas: the better of cublasGemmEx and cublasLtMatmul; cublaslt: cublasLtMatmul alone, for types that the "
        "other lacks"
    )
    source: str = optional(
        "the code of ours that the library runs, where there is some; rows know which it was",
        pattern="^experiments/gpu/[a-z0-9_]+[.]py$",
    )
    dtype: Dtype = optional()
    types: TypesEntry = optional()
    b_layout: Layout = optional(
        "of B in memory, where this is measured by itself, and of all that a library takes which moves whole 16 bytes; "
        "row when left out"
    )
    arch: int = optional("lowest compute capability, times ten; 75 when left out", ge=75)
    baseline: str
    idea: str


EntryName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,63}$")]
ShortName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,63}([{]tile[}]_?)?([{]dtype[}])?$")]


def _merges(value: dict[str, Any]) -> dict[str, Any]:
    """An entry as it is written: what is merged and repeated has the right kind; `Entries` checks
    the rest.
    """
    for key, kind in (
        ("source", str),
        ("like", str),
        ("template", dict),
        ("choices", list),
        ("dtypes", list),
    ):
        if key in value and not isinstance(value[key], kind):
            raise ValueError({str: "text", dict: "a mapping", list: "a list"}[kind] + f" in {key}")
    if not isinstance(value.get("tiles", {}), dict | str):
        raise ValueError("a mapping in tiles, or the entry whose tiles these are")
    return value


Short = Annotated[dict[str, Any], AfterValidator(_merges)]


class CatalogueFile(Document):
    """kernels/catalogue.yaml: every kernel, dispatcher and library that is measured, by name.

    kernels/expand.py says what its short forms stand for; `Entries` explains the keys of an entry.
    """

    defaults: dict[str, Short] = optional(
        "keys of the entries of a family, or of a folder of sources"
    )
    variants: dict[ShortName, Short]
    dispatchers: dict[ShortName, Short] = optional()
    baselines: dict[EntryName, Short]


class Entries(Document):
    """The entries of kernels/catalogue.yaml, each whole.

    A number may be arithmetic on template values.
    """

    variants: dict[EntryName, VariantEntry]
    dispatchers: dict[EntryName, DispatcherEntry] = optional()
    baselines: dict[EntryName, BaselineEntry]


# ---- worklogs ------------------------------------------------------------------------------------


class Section(Document):
    """Lines of a worklog's text, from 1."""

    name: str
    first: int = column(ge=1)
    last: int = column(ge=1)


class EmulatedProblem(Document):
    """A problem that the text measured and that has no counters here: the emulator counts them."""

    kernel: str = column("in kernels/catalogue.yaml")
    size: Size = column("m = n = k")
    beta: float = column(ge=-1000, le=1000)


class Worklog(Document):
    """paper/worklogs/NAME/source.yaml: what a worklog is, and which lines of its text each section
    takes.

    The folder's name is the worklog's. It also holds published.csv and claims.yaml and, where there
    is something to say, steps.yaml, analytic.yaml, compiled.csv and emulated.csv.
    """

    short: str = column("its author or subject in a few words, for the heads of tables")
    title: str
    author: str | None
    link: str | None = column("of the text, or of its code", pattern="^https://")
    sha256: str = column(
        "of the text that the line numbers are of, which is not in this repository", pattern=SHA256
    )
    lines: int = column(ge=1)
    gpus: list[str] = column("those that the author measured on")
    sections: list[Section] = column(min_length=1)
    compiled: dict[Annotated[str, Field(pattern=ARCH)], NonEmptyNames] | None = optional(
        "kernels of the catalogue that are compiled for the author's GPU, too, by architecture: what the text says of "
        "registers and instructions is compared with those"
    )
    emulated: Annotated[list[EmulatedProblem], Field(min_length=1)] | None = None


class Published(Row):
    """paper/worklogs/NAME/published.csv: one row for each number that a worklog publishes."""

    KEY = ("id",)
    id: str = column("unique within the worklog", pattern="^[a-z0-9][a-z0-9-]*$")
    line: int = column("of the worklog's text, from 1", ge=1)
    section: str = column("in source.yaml; its range holds the line")
    as_written: str = column("the number as it stands on that line", min_length=1)
    subject: str = column("what it is a number of", min_length=1)
    variant: str | None = optional(
        "name in kernels/catalogue.yaml, where it is of one of these kernels"
    )
    m: Positive | None = None
    n: Positive | None = None
    k: Positive | None = None
    gpu: str | None = optional("theirs; empty for theory")
    clock_policy: Literal["boost", "locked"] | None = optional(
        "of their clocks; empty where they do not say"
    )
    quantity: str = column("one word for one thing in all worklogs", pattern="^[a-z][a-z0-9_]*$")
    value: float = column("in the unit")
    unit: str = column(min_length=1)
    note: str | None = None


# ---- claims and their verdicts -------------------------------------------------------------------


class ClaimEntry(Document):
    """An entry of a claims.yaml: what a text says, and the comparison that tests it."""

    id: str = column(
        "unique in its folder; FOLDER/ID everywhere else", pattern="^[a-z0-9][a-z0-9-]*$"
    )
    line: int | None = optional("of the worklog's text, from 1; not of our own kernels", ge=1)
    quote: str | None = optional("the text's own words on that line", min_length=1)
    claim: str = column("in our words, one sentence", min_length=1)
    test: str | None = optional("a comparison that analysis/numbers.py evaluates", min_length=1)
    untestable: str | None = optional(
        "in place of test: why nothing here can decide it", min_length=1
    )
    kind: Literal["anywhere", "mechanism"] = column(
        "anywhere: arithmetic, compiler, emulator, one verdict; mechanism: a verdict for each GPU",
        default="mechanism",
    )
    slip: bool = column(
        "the text contradicts its own numbers, arithmetic or a documented rule", default=False
    )
    remark: str | None = optional("what explains the verdict; {EXPRESSION} is filled in")


class Claims(RootModel[list[ClaimEntry]]):
    """paper/worklogs/NAME/claims.yaml, and paper/claims.yaml for our own kernels."""


Verdict = Literal["holds", "does not hold", "within noise", "not measured", "not testable"]


class RecordedVerdict(Row):
    """data/GPU/verdicts.csv: the verdict of each claim, as `python -m analysis claims --record`
    wrote it.
    """

    KEY = ("id",)
    id: str = column("FOLDER/ID")
    verdict: Verdict
    ours: str | None = optional("the value then, with its interval")
    rule_hash: str = column("of test and quotation: a record of another question does not count")


class TableRow(Row):
    """results/tables/claims.csv: one row for each claim and GPU."""

    KEY = ("gpu", "worklog", "id")
    gpu: str = column("of the results folder or archive; any: the test reads no measurement")
    worklog: str = column("its folder; ours: of this project's own kernels")
    id: str = column("unique in its worklog")
    line: int | None = optional("of the worklog's text, from 1")
    quote: str | None = optional("its words on that line")
    claim: str
    kind: Literal["anywhere", "mechanism", "untestable"] = column(
        "anywhere: arithmetic, compiler, emulator; mechanism: measured on a GPU"
    )
    verdict: Verdict
    ours: str | None = optional("the value that the test compares, with its interval")
    words: str | None = optional("the comparison with its values, or why there is none")
    claimed: str | None = optional("what the claim says, with its unit")
    measured: str | None = optional("what was measured or computed, with its unit")
    remark: str | None = None
    test: str | None = None
    slip: bool
    rule_hash: str = column("of test and quotation")
    note: str | None = optional(
        "what a reader has to know of all numbers of this GPU, as of a rehearsal"
    )


# ---- arithmetic and steps of worklogs ------------------------------------------------------------


class Occupancy(Document):
    """How many blocks fit on an SM."""

    arch: str = column(pattern=ARCH)
    threads: int = column("per block", ge=1, le=1024)
    registers: int = column("per thread", ge=1, le=255)
    shared_bytes: int = column("per block, without the driver's reserve", unit="bytes", ge=0)


class Access(Document):
    """An access to shared memory by a warp."""

    kind: Literal["load", "store", "ldmatrix", "cp_async"]
    bytes: Literal[1, 2, 4, 8, 16] = column("per lane")
    address: str = column("an expression in lane: byte address in shared memory")
    source: str = optional("of a cp_async: byte address in global memory, likewise")
    lanes: int = optional("how many take part, from lane 0; all when left out", ge=1, le=32)


class Switch(Document):
    """Two slots in shared memory between which XOR with slot_bytes changes over."""

    arch: str = column(pattern=ARCH)
    slot_bytes: int = column("of each slot, a power of two", ge=4, le=131_072)
    used_bytes: int = column("of a slot, from its start", ge=4, le=131_072)
    offset: int = optional(
        "of the first slot in the block's shared memory; 0 when left out", ge=0, le=131_072
    )


class AnalyticCase(Document):
    """One of these keys."""

    occupancy: Occupancy = optional()
    access: Access = optional()
    switch: Switch = optional()


class AnalyticCases(
    RootModel[
        dict[
            Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")],
            Annotated[AnalyticCase, AfterValidator(_one_key)],
        ]
    ]
):
    """paper/worklogs/NAME/analytic.yaml: cases that are arithmetic and no measurement, by their
    names in analytic.csv."""


class StepCounter(Document):
    """A counter that a step was meant to move."""

    key: str = column("of analysis.counters or a column of resources.csv")
    meant: Literal["fall", "rise"] = column("which way the idea says that it goes")


class Step(Document):
    """A step of a ladder."""

    variant: str = column("name in kernels/catalogue.yaml")
    over: str = column("the variant that it is compared with")
    changed: str = column("what the step changes, as the end of a row")
    control: bool = column(
        "the step costs something on purpose, to measure what that is worth", default=False
    )
    counters: list[StepCounter] = column(min_length=1, max_length=3)


class Steps(RootModel[list[Step]]):
    """paper/worklogs/NAME/steps.yaml, and paper/steps.yaml for our own kernels: each step of the
    ladders, and the counters that it was meant to move."""


# ---- bank pictures -------------------------------------------------------------------------------


class DrawnAccess(Document):
    """An access to shared memory that is drawn."""

    variant: str = column("name in kernels/catalogue.yaml")
    says: str = column("heading of this access")
    line: str = column("regular expression that one line of the variant's source matches")
    number: int = column(
        "which access of that line is drawn, in the order of the PTX", ge=1, default=1
    )


class DrawnPicture(Document):
    """Accesses to shared memory next to each other."""

    title: str
    text: str = column("what the reader may see in it")
    accesses: list[DrawnAccess] = column(min_length=1)


class BankPictures(RootModel[dict[Annotated[str, Field(pattern="^[a-z0-9_]+$")], DrawnPicture]]):
    """workflow/bank_pictures.yaml: which accesses to shared memory are drawn, by the name of the
    picture.
    """
