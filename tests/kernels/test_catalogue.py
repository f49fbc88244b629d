"""The catalogue: what loads, what is refused and in which words, and which edits change a source's
hash.
"""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from helpers import dict_rows, refused

from contracts.rows import Variants
from kernels import arguments, catalogue, entries, expand, sources
from kernels.catalogue import Problem, Variant
from kernels.problem import ProblemSpec

CATALOGUE = catalogue.load()
KERNELS = CATALOGUE.kernels
LARGE = "sgemm_t128x256x8_cpasync"


def edited(tmp_path: Path, section: str, name: str, **keys: Any) -> catalogue.Entry:
    """An entry whose keys are changed, from a copy of the catalogue file; its sources are the real
    ones.
    """
    data = copy.deepcopy(catalogue.entries_of(catalogue.CATALOGUE))
    data[section][name].update(keys)
    path = tmp_path / "catalogue.yaml"
    path.write_text(json.dumps(data))  # which is YAML
    return catalogue.load(path=path)[name]


def vectorized(**keys: Any) -> Variant:
    """sgemm_vectorized with other fields."""
    return replace(KERNELS["sgemm_vectorized"], **keys)


# ---- what is there -------------------------------------------------------------------------------


def test_every_variant_is_complete_and_instantiates_its_kernel_once() -> None:
    """Its block covers the tile, its baseline has its precision, its source has its entry."""
    for name, variant in KERNELS.items():
        producers = 0  # a warp group, or a warp, that only brings tiles
        if variant.one_arch:
            producers = 128 if variant.threads == 384 else variant.threads % 128
        assert variant.tile["m"] * variant.tile["n"] % (variant.threads - producers) == 0, name
        baseline = CATALOGUE[variant.baseline]
        assert isinstance(baseline, catalogue.Baseline) and baseline.dtype == variant.dtype, name
        assert variant.idea and variant.entry in variant.source.read_text(), name
        unit = variant.translation_unit()
        assert max(map(len, unit.splitlines())) <= 120, name
        assert unit.count("template __global__") == 1, name
        assert f"{variant.types.c.c_type}* C," in unit, name
        assert ("tex_b" in unit) == variant.textures, name


def test_the_head_of_each_source_has_the_command_that_runs_one_of_its_kernels() -> None:
    for path in catalogue.ROOT.glob("*/*.cu"):
        command = re.search(r"^// Run: +make try KERNEL=(\w+)$", path.read_text(), re.M)
        assert command and KERNELS[command[1]].source == path, path


def test_a_variant_s_numbers_are_those_of_its_template(variants_csv: Path) -> None:
    rows = {row["variant"]: row for row in dict_rows(variants_csv, Variants)}
    assert list(rows) == list(CATALOGUE)
    assert KERNELS["sgemm_warptile"].tile == {"m": 128, "n": 128, "k": 16}
    assert KERNELS["sgemm_blocktile_1d"].multiples == {"m": 64, "n": 64, "k": 8}
    assert rows["tf32gemm_bcf_dbf_rna"]["family"] == "tf32gemm"
    assert rows["sgemm_vectorized"]["source"] == "kernels/sgemm/vectorized.cu"
    assert rows["sgemm_vectorized"]["requires"].endswith("ldc % 4 = 0, 16-byte aligned matrices")
    assert rows["cublas_tf32"]["kind"] == "baseline" and rows["cublas_tf32"]["source"] is None
    dispatcher, large, small = rows["sgemm_c_dispatch"], LARGE, "sgemm_t128x128x8"
    assert dispatcher["choices"] == f"{large} for m >= 2500, n >= 2500; else {small}"
    assert dispatcher["kernels"] == f"{large} {small}"


@pytest.mark.parametrize(
    ("name", "m", "n", "blocks"),
    # x over m, x over n
    [("sgemm_naive", 100, 200, (4, 7, 1)), ("sgemm_vectorized", 256, 1280, (10, 2, 1))],
)
def test_a_grid_covers_c(name: str, m: int, n: int, blocks: tuple[int, int, int]) -> None:
    assert KERNELS[name].grid(Problem(m, n, 8, 8, n, n), sms=1) == blocks


def test_a_persistent_grid_follows_the_gpu_and_has_whole_clusters() -> None:
    large, small = Problem.square(8 * 128), Problem.square(128)
    assert vectorized().grid(large, sms=7) == (8, 8, 1)
    assert vectorized(blocks_per_sm=2).grid(large, sms=7) == (14, 1, 1)
    assert vectorized(blocks_per_sm=1, cluster=(2, 1)).grid(large, sms=7) == (6, 1, 1)
    assert vectorized(blocks_per_sm=1).grid(small, sms=7) == (1, 1, 1)
    assert vectorized(blocks_per_sm=1, stream_k=True).grid(small, sms=7) == (7, 1, 1)
    assert vectorized(cluster=(2, 1), splits=4).grid(Problem.square(5 * 128), sms=7) == (6, 5, 4)


def test_arguments_are_declared_and_packed_in_the_order_that_the_entry_gives(
    tmp_path: Path,
) -> None:
    tensor_map = {"tma_b": {"box": ["BK", 16], "swizzle": 64}}
    workspace = {"workspace": {"bytes": 256, "bytes_per_block": 1024, "zeroed": "once"}}
    given = [tensor_map, "k", "alpha", "A", "C", "tile_counter", workspace]
    template = {"BM": 128, "BN": 128, "BK": 8, "T": "__half", "FLAG": True}
    variant = edited(tmp_path, "variants", "sgemm_vectorized", arguments=given, template=template)
    assert isinstance(variant, Variant)
    name, _, parameters = re.sub(r"\s+", " ", variant.translation_unit()).partition("( ")
    assert name.endswith("sgemm_vectorized<128, 128, 8, __half, true>")
    assert parameters.startswith("const __grid_constant__ CUtensorMap tma_b, int k,")
    assert parameters.endswith("float* C, unsigned* tile_counter, void* workspace); ")
    makers = Mock()
    makers.workspace.side_effect = lambda nbytes, spec: (nbytes, spec.name, spec.zeroed)
    problem = Problem(5, 8, 7, 8, 12, 8, alpha=2.0)
    packed = arguments.pack(variant.arguments, problem, {"A": 1, "B": 2, "C": 3}, 10, makers)
    tensor, *others, counter, workspace = packed
    (*matrix, spec), _ = makers.tensor_map.call_args
    assert tensor is makers.tensor_map.return_value and others == [7, 2.0, 1, 3]
    assert (matrix, spec.box, spec.swizzle) == ([2, 7, 8, 12], (8, 16), 64)
    assert counter == (4, "tile_counter", "always")
    assert workspace == (256 + 10 * 1024, "workspace", "once")


# ---- problems that are refused -------------------------------------------------------------------


def test_each_requirement_is_named_with_its_value() -> None:
    """A problem that breaks one requirement alone is refused, in words that name it; one that keeps
    it is not.
    """
    for name, variant in KERNELS.items():
        good = Problem(1024, 1024, 1024, 2048, 2048, 2048, b_layout=variant.b_layout)
        assert variant.unsupported_reason(good) is None
        for key, multiple in variant.multiples.items():
            value, whole = getattr(good, key) + multiple // 2, getattr(good, key) + multiple
            rule = f"{key} = {value}, but {key} must be a multiple of {multiple}"
            said = f"{name} cannot take this problem: {rule}"
            assert variant.unsupported_reason(replace(good, **{key: value})) == said
            assert variant.unsupported_reason(replace(good, **{key: whole})) is None, (name, key)
        for matrix in variant.aligned:
            addresses = {"A": 4096, "B": 8192, "C": 12288}
            assert variant.unsupported_reason(good, addresses) is None
            addresses[matrix] += variant.align_bytes // 2
            rule = f"it must be aligned to {variant.align_bytes} bytes"
            said = f"{matrix} starts at byte {addresses[matrix]}, but {rule}"
            assert str(variant.unsupported_reason(good, addresses)).endswith(said), name


def test_a_problem_that_nothing_can_take_is_refused_by_all() -> None:
    good = Problem(4, 5, 6, 6, 5, 5)
    for key, value in {"m": 0, "n": -1, "k": 0, "lda": 5, "ldb": 4, "ldc": 4}.items():
        for entry in CATALOGUE.values():
            assert f"{key} = {value}, but" in str(
                entry.unsupported_reason(replace(good, **{key: value}))
            )
    assert "a column has 6 elements" in str(
        Problem(4, 5, 6, 6, 5, 5, b_layout="column").unsupported_reason()
    )


@pytest.mark.parametrize("axis", "ABC")
def test_a_matrix_beyond_a_32_bit_index_is_refused(axis: str) -> None:
    sizes = {"A": (2**16, 1, 1, 2**15, 1, 1), "B": (1, 1, 2**16, 2**16, 2**15, 1)}
    sizes |= {"C": (2**16, 1, 1, 1, 1, 2**15)}
    assert (
        Problem(*sizes[axis]).unsupported_reason().startswith(f"{axis} spans 2147483648 elements")
    )
    assert (
        Problem.square(46340).unsupported_reason() is None
        and Problem.square(46341).unsupported_reason() is not None
    )


def test_a_b_that_lies_otherwise_is_refused_and_libraries_take_both() -> None:
    for entry in CATALOGUE.values():
        takes_both = getattr(entry, "library", None) in ("cublas", "torch")
        for layout in ("row", "column"):
            takes = takes_both or entry.b_layout == layout
            said = entry.unsupported_reason(Problem.square(1024, layout))
            assert (said is None) == takes and (takes or f"B is {layout}-major" in said)


def test_the_grid_limit_is_named() -> None:
    naive, n = KERNELS["sgemm_naive"], 65535 * 32
    assert naive.unsupported_reason(Problem(1, n, 1, 1, n, n)) is None
    assert "65536 blocks in y" in naive.unsupported_reason(Problem(1, n + 1, 1, 1, n + 1, n + 1))


def test_a_column_major_b_lies_in_memory_as_its_transpose() -> None:
    by_rows, by_columns = Problem(2, 3, 4, 5, 6, 7), Problem(2, 3, 4, 5, 6, 7, b_layout="column")
    assert by_rows.stored == {"A": (2, 4, 5), "B": (4, 3, 6), "C": (2, 3, 7)}
    assert by_columns.stored == by_rows.stored | {"B": (3, 4, 6)}
    assert by_rows.numbers == by_columns.numbers and list(by_rows.numbers)[-1] == "beta"


@pytest.mark.parametrize(
    ("text", "sizes", "factors", "layout"),
    [
        ("64", (64, 64, 64), (1, 0), "row"),
        ("64x128x32", (64, 128, 32), (1, 0), "row"),
        ("64x64x64,alpha=0.5", (64, 64, 64), (0.5, 0), "row"),
        ("1x2x3,beta=-1.5,b=column", (1, 2, 3), (1, -1.5), "column"),
        ("7,b=row", (7, 7, 7), (1, 0), "row"),
        ("64,alpha=2,beta=0.5", (64, 64, 64), (2, 0.5), "row"),
    ],
)
def test_a_problem_reads_as_it_is_written(
    text: str, sizes: tuple[int, int, int], factors: tuple[float, float], layout: str
) -> None:
    written = ProblemSpec.parse(text)
    assert str(written).split(",") == ["x".join(map(str, sizes)), *text.split(",")[1:]]
    problem = written.of("row")
    assert (problem.alpha, problem.beta, problem.b_layout) == (*factors, layout)
    assert written.flop == problem.flop == 2 * math.prod(sizes)
    assert Problem.square(64).alpha == 1


# ---- a catalogue that is broken ------------------------------------------------------------------

NAIVE, VECTORIZED = ("variants", "sgemm_naive"), ("variants", "sgemm_vectorized")
TEXLD = ("dispatchers", "sgemm_c_texld")
TWO_DTYPES = [{"variant": "sgemm_naive"}, {"variant": "hgemm_naive_bf16"}]
BROKEN = [  # section and entry, key, value, what the message has beside them
    (NAIVE, "tile", {"m": "BLOK", "n": 32, "k": 1}, "nearest: BLOCK"),
    (NAIVE, "multiples", {"m": "BM"}, "'BM'"),
    (NAIVE, "builds_on", "sgemm_nave", "nearest: sgemm_naive"),
    (NAIVE, "builds_on", "cublas_fp32", "'cublas_fp32'"),
    (NAIVE, "baseline", "cublas_fp31", "nearest: cublas"),
    (NAIVE, "source", "sgemm/nave.cu", "no such file"),
    (NAIVE, "threads", 2048, "a multiple of 32"),
    (NAIVE, "dtype", "fp64", "allowed: one of fp32"),
    (NAIVE, "treads", 64, "nearest: threads"),
    (NAIVE, "idea", None, "idea"),
    (VECTORIZED, "arguments", [{"tma_a": {"box": [257, 4]}}], "at most 256"),
    (
        VECTORIZED,
        "arguments",
        [{"tma_a": {"box": [8, 4], "l2_promotion": "TM"}}],
        "l2_promotion = 8; allowed",
    ),
    (VECTORIZED, "arguments", [{"tma_a": {"box": ["BN", 3]}}], "a multiple of 16"),
    (VECTORIZED, "arguments", [{"tma_c": {"box": [8, 64], "swizzle": 128}}], "256 bytes"),
    (VECTORIZED, "arguments", ["m", "n", "m"], "twice"),
    (VECTORIZED, "arguments", ["q"], "q"),
    (VECTORIZED, "cluster", [4, 4], "at most 8 blocks"),
    (VECTORIZED, "sums", {"m": ["8 threads"], "n": ["128 thread"]}, "8 threads"),
    (VECTORIZED, "arch", "90b", "90b"),
    (VECTORIZED, "tiles", 3, "a mapping in tiles"),
    # which has none
    (VECTORIZED, "tiles", "sgemm_naive", "unknown entry with tiles 'sgemm_naive'"),
    (TEXLD, "choices", [{"variant": "sgemm_t128x128x9"}], "nearest"),
    (TEXLD, "choices", [], "at least 1 item"),
    (TEXLD, "choices", TWO_DTYPES, "fp32 and bf16"),
    (TEXLD, "builds_on", "sgemm_c_dispatch", "'sgemm_c_dispatch'"),
]


@pytest.mark.parametrize(
    ("m", "n", "words"),
    [
        (["TM thread", "8 lane"], ["128 lane"], "sums.m makes 64, but the tile has 128"),
        (["32 * TN // 512 lane"], ["BN lane"], "sums.m makes 0, but the tile has 128"),
        (["128 thread"], ["BN lane"], "sums has 128 lanes, but a warp has 32"),
    ],
)
def test_sums_that_do_not_make_up_the_tile_are_refused(
    m: list[str], n: list[str], words: str
) -> None:
    with refused(rf"sgemm_vectorized\.{re.escape(words)}"):
        vectorized(sums={"m": m, "n": n}).divided_sums()


@pytest.mark.parametrize(("entry", "key", "value", "words"), BROKEN)
def test_a_broken_entry_names_file_entry_and_key(
    entry: Any, key: str, value: Any, words: str, tmp_path: Path
) -> None:
    with refused(re.escape(words)) as error:
        edited(tmp_path, *entry, **{key: value})
    said = str(error.value)
    named = "" if key == "arguments" else key  # which are named themselves
    assert str(tmp_path / "catalogue.yaml") in said and entry[1] in said and named in said


def test_names_and_architectures_are_told_apart() -> None:
    with refused(r"unknown variant 'sgemm_warptle' in .*nearest: sgemm_warptile"):
        CATALOGUE.find("sgemm_warptle")
    kernel = vectorized(arch=90, one_arch=True)
    assert kernel.unsupported("sm_90a") is None and "arch = sm_100" in str(
        kernel.unsupported("sm_100")
    )


# ---- hashes --------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of kernels/ that the loader takes for the real one."""
    copy = tmp_path / "kernels"
    shutil.copytree(catalogue.ROOT, copy)
    for module in (catalogue, entries, sources):
        monkeypatch.setattr(module, "ROOT", copy)
    return copy


def hashes(tree: Path) -> dict[str, str]:
    """Every variant's hash, read afresh."""
    return {
        entry.name: entry.source_hash
        for entry in catalogue.load(path=tree / "catalogue.yaml").values()
        if isinstance(entry, (Variant, catalogue.Dispatcher))
    }


def changed(tree: Path, name: str, edit: Callable[[str], str]) -> set[str]:
    """The kernels and dispatchers whose hash changes when a file below kernels/ is edited."""
    before, text = hashes(tree), (tree / name).read_text()
    assert edit(text) != text, "the edit changes nothing"
    (tree / name).write_text(edit(text))
    after = hashes(tree)
    return {variant for variant in before if before[variant] != after[variant]}


def test_comments_and_white_space_do_not_change_a_hash(tree: Path) -> None:
    edits: list[Callable[[str], str]] = [
        lambda text: "// a new first line\n" + text,
        lambda text: text.replace("template <", "/* two\nlines */ template   <"),
        lambda text: text.replace("    ", "\t\t") + "\n\n",
    ]
    for edit in edits:
        assert changed(tree, "sgemm/naive.cu", edit) == set()


def test_code_and_included_headers_change_the_hash_of_their_users_alone(tree: Path) -> None:
    edit = lambda t: t.replace("float sum = 0.0f", "float sum = 1.0f")
    assert changed(tree, "sgemm/naive.cu", edit) == {"sgemm_naive"}
    header = "include/store_stage.cuh"
    users = {name for name, kernel in KERNELS.items() if header in kernel.source.read_text()}
    included = changed(tree, header, lambda t: t + '\n#include "include/deep.cuh"\n')
    assert users and included == users
    (tree / "include" / "deep.cuh").write_text("#pragma once\n")
    assert changed(tree, "include/deep.cuh", lambda t: t + "struct Deep {};\n") == users


def test_a_dispatcher_s_hash_is_of_its_choices_and_not_of_its_kernels(tree: Path) -> None:
    edit = lambda text: text.replace("TM = 8,", "TM = 7 + 1,")
    assert changed(tree, "sgemm/t128x128x8_texld.cu", edit) == {"sgemm_t128x128x8_texld"}
    edit = lambda text: text.replace("n: 2500}", "n: 2501}")
    assert changed(tree, "catalogue.yaml", edit) == {"sgemm_c_dispatch"}


def test_launch_changes_a_hash_but_words_do_not() -> None:
    changes = {"template": {"BM": 64}, "threads": 128, "b_layout": "column"}
    changes |= {"cluster": (2, 1), "splits": 2}
    before = vectorized().source_hash
    after = {vectorized(**{key: value}).source_hash for key, value in changes.items()}
    assert len(after - {before}) == len(changes)
    assert vectorized(idea="another").source_hash == before


# ---- short forms ---------------------------------------------------------------------------------

DEFAULTS = {"f": {"dtypes": ["bf16", "fp16"], "template": {"T": "{type}"}, "raster": "nm"}}
FIRST = {"source": "f/a.cu", "template": {"BM": 64, "BN": 32}, "threads": "BM * BN // 16"}
FIRST |= {"idea": "first", "origin": {"worklog": "w"}, "entry": "f_b"}


def expanded(**variants: Any) -> dict[str, Any]:
    """Return the complete entries of a catalogue with these, and with `DEFAULTS`."""
    data = {"defaults": DEFAULTS, "variants": variants, "baselines": {}}
    result: dict[str, Any] = expand.expand(data, "test")["variants"]
    return result


def test_an_entry_has_the_defaults_of_its_family_and_one_kernel_for_each_dtype() -> None:
    entry = {"source": "f/a.cu", "template": {"BN": 128}, "builds_on": "b_{dtype}", "raster": "mn"}
    kernels = expanded(**{"a_{dtype}": entry})
    assert list(kernels) == ["a_bf16", "a_fp16"]
    assert kernels["a_fp16"] == {
        **{"source": "f/a.cu", "template": {"T": "__half", "BN": 128}, "builds_on": "b_fp16"},
        **{"dtype": "fp16", "raster": "mn", "origin": None},
    }


def test_an_entry_has_the_keys_of_the_one_that_it_is_like() -> None:
    """Its own keys win, and what speaks of the other entry alone is not taken over."""
    own = {"like": "a_{dtype}", "template": {"BN": None, "TM": 8}, "idea": "second"}
    moved = {"like": "b_{dtype}", "source": "f/c.cu", "idea": "third"}
    kernels = expanded(**{"a_{dtype}": FIRST, "b_{dtype}": own, "c_{dtype}": moved})
    same = {"threads": "BM * BN // 16", "raster": "nm", "dtype": "fp16", "origin": None}
    same |= {"template": {"T": "__half", "BM": 64, "TM": 8}}
    b = {"source": "f/a.cu", "entry": "f_b", "builds_on": "a_fp16", "idea": "second"}
    assert kernels["b_fp16"] == same | b
    c = {"source": "f/c.cu", "builds_on": "b_fp16", "idea": "third"}
    assert kernels["c_fp16"] == same | c


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ({"a": {"like": "a"}}, "a.like = 'a' is not allowed, for a is like a"),
        ({"a": {"like": "b"}, "b": {"like": "a"}}, "for a is like b is like a"),
        ({"ab1": FIRST, "b": {"like": "ab2"}}, "'ab2' in test: b.like; nearest: ab1"),
        ({"a": FIRST | {"dtypes": ["bf16", "fp16"]}}, "allowed: {dtype} in its name"),
    ],
)
def test_an_entry_like_none_or_like_itself_is_one_line(
    variants: dict[str, Any], words: str
) -> None:
    with refused(re.escape(words)):
        expanded(**variants)


@pytest.mark.parametrize("wrong", ["BM * __import__", "BM / 3", "BM - 64", "T", "BX"])
def test_arithmetic_that_is_no_number_is_one_line(wrong: str) -> None:
    with refused(r"a\.threads"):
        expand.number(wrong, {"T": "__half", "BM": 64}, "a.threads")
