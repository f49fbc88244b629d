"""Parameters that are structs: pointers, numbers and tensor maps in them, from Python and the
command line.
"""

from __future__ import annotations

import numpy as np
import pytest
from running import KERNELS, fails

import ptxsim
from ptxsim import Array, Struct, TensorMap
from ptxsim.cli import main
from ptxsim.ptx.compiler import compile_ptx

SOURCE = f"""
#define wait wait_in_tma
#include "{KERNELS / "tma.cu"}"
#undef wait
struct Inner {{ const float* in; short n; }};
struct Params {{ float* out; Inner inner; float factor; alignas(64) CUtensorMap map; cudaTextureObject_t texture; }};
extern "C" __global__ void whole(const __grid_constant__ Params p) {{
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {{
        init(&bar, 1);
        init_fence();
        expect(&bar, 32 * 16);
        load_2d(shared, &p.map, 0, 0, &bar);
    }}
    __syncthreads();
    wait_in_tma(&bar, 0);
    const uint16_t* box = reinterpret_cast<const uint16_t*>(shared);
    int i = threadIdx.x;
    p.out[i] = i < p.inner.n ? p.inner.in[i] * p.factor + box[i] + tex1Dfetch<float>(p.texture, i) : 0;
}}
struct Two {{ float* a; float* b; }};
extern "C" __global__ void meets(Two two, const float* also_b, float* out) {{  // a race, if b and also_b are one
    two.b[threadIdx.x] = 1;
    out[threadIdx.x] = also_b[31 - threadIdx.x] + two.a[threadIdx.x];
}}
"""


@pytest.fixture(scope="module")
def ptx_text(compiled, tmp_path_factory):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    path = tmp_path_factory.mktemp("structs") / "structs.cu"
    path.write_text(SOURCE)
    return compile_ptx(path)


def parts(out, x, box, texture):
    return {
        0: out,
        8: Struct({0: x, 8: np.int16(20)}, 16),
        24: np.float32(3),
        128: TensorMap(box, (32, 8)),
        256: ptxsim.Texture(texture, 1),
    }


def test_pointers_numbers_maps_and_textures_in_a_struct(ptx_text):
    x, table = np.arange(32, dtype=np.float32), np.arange(100, 132, dtype=np.float32)
    box = np.arange(64 * 16, dtype=np.uint16).reshape(64, 16)
    out = Array(np.full(32, -1, np.float32), "out")
    kernel = ptxsim.load(ptx_text, "whole")
    value = Struct(parts(out, Array(x), Array(box), Array(table)))
    kernel.launch(1, 32, [value], shared_bytes=512)
    want = x * 3 + box[:32, :8].reshape(-1)[:32] + table
    assert (out.numpy()[:20] == want[:20]).all() and not out.numpy()[20:].any()
    assert kernel.count(1, 32, [value], shared_bytes=512).totals()["l2_sectors_bulk_ld.sum"] == 32


def test_a_map_at_another_place_of_the_struct_is_reported(ptx_text):
    given = parts(*(Array(np.zeros((64, 16), np.uint16)) for _ in range(4)))
    given[192] = given.pop(128)
    message = r"there is no tensor map at generic address 0x[0-9a-f]+, byte 128 of parameter 0: pass a ptxsim.TensorMap"
    del given[256]
    with pytest.raises(ptxsim.KernelFault, match=message):
        ptxsim.load(ptx_text, "whole").launch(1, 32, [Struct(given)], shared_bytes=512)


@pytest.mark.parametrize("one", [True, False])
def test_a_buffer_of_a_struct_is_that_of_another_parameter(ptx_text, one):
    """Watched for races, and not left out of a launch that only counts."""
    a, b, other, out = (
        Array(np.zeros(32, np.float32), name) for name in ("a", "b", "other", "out")
    )
    args = [Struct({0: a, 8: b}), b if one else other, out]
    kernel = ptxsim.load(ptx_text, "meets")
    if one:
        with pytest.raises(ptxsim.KernelFault, match="race in global memory: reads what thread"):
            kernel.launch(1, 32, args)
    else:
        kernel.launch(1, 32, args)
    nobody = Array(np.zeros(32, np.float32), "nobody", unwritten=True)
    with pytest.raises(
        ptxsim.KernelFault, match=r"read of global memory that nobody wrote .*0 bytes into nobody"
    ):
        kernel.launch(1, 32, [Struct({0: nobody, 8: b}), other, out])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: 5}, "at byte 0 of a struct a int has no size: pass np.int32"),
        (
            {0: np.int64(1), 4: np.int32(1)},
            "at byte 4 of a struct of 16 bytes there is no room for 4 .* taking 8",
        ),
        ({12: np.int64(1)}, "at byte 12 of a struct of 16 bytes there is no room for 8 bytes"),
    ],
)
def test_what_is_no_struct_is_one_line(ptx_text, given, message):
    arrays = [Array(np.zeros(32, np.float32)) for _ in range(2)]
    with fails(message):
        ptxsim.load(ptx_text, "meets").launch(1, 32, [Struct(given), *arrays])


def test_the_command_line(ptx_text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(ptx_text)
    text = (
        "struct:0=out=made.npy=zeros:f32:32;8=ones:f32:32;16=i16:32;24=f32:3;128=tma=zeros:u16:64x16:box=32x8;"
        "256=tex=ones:f32:32"
    )
    options = ["run", "k.ptx", "--entry=whole", "--grid=1", "--block=32", "--shared=512"]
    assert main([*options, "--arg", text]) == 0, capsys.readouterr().err
    assert (np.load("made.npy") == 4).all()
    for wrong, message in (
        ("struct:8", "expected OFFSET=ARG"),
        ("struct:0=5", "'0=5' says no type"),
    ):
        assert main([*options, "--arg", wrong]) == 2
        assert message in capsys.readouterr().err
