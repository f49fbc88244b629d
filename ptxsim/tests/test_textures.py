"""Textures and surfaces over CUDA arrays, against the programming guide's formulas written out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from running import HEADER, fails

import ptxsim
from ptxsim import Array, TextureArray
from ptxsim.cli import main
from ptxsim.ptx.compiler import compile_ptx

SOURCE = """
typedef cudaTextureObject_t T;
#define OF(name, body)                                                                             \\
    extern "C" __global__ void name(                                                               \\
        float4* out, T t, const float* x, const float* y, const float* z) {                        \\
        int i = threadIdx.x;                                                                       \\
        float4 r = make_float4(0, 0, 0, 0);                                                        \\
        body;                                                                                      \\
        out[i] = r;                                                                                \\
    }
OF(one, r.x = tex1D<float>(t, x[i]))
OF(two, r.x = tex2D<float>(t, x[i], y[i]); r.y = tex2DLod<float>(t, x[i], y[i], 0))
OF(three, r.x = tex3D<float>(t, x[i], y[i], z[i]))
OF(rows, r.x = tex1DLayered<float>(t, x[i], int(z[i])))
OF(layers, r.x = tex2DLayered<float>(t, x[i], y[i], int(z[i])))
OF(cube, r.x = texCubemap<float>(t, x[i], y[i], z[i]))
OF(cubes, r.x = texCubemapLayered<float>(t, x[i], y[i], z[i], 1))
OF(colours, r = tex2D<float4>(t, x[i], y[i]))
OF(bytes, uchar4 b = tex2D<uchar4>(t, x[i], y[i]); r = make_float4(b.x, b.y, b.z, b.w))
extern "C" __global__ void surfaces(cudaSurfaceObject_t to, cudaSurfaceObject_t from, int dx) {
    float v;
    surf2Dread(&v, from, (threadIdx.x + dx) * 4, threadIdx.y, cudaBoundaryModeZero);
    surf2Dwrite(v + 1, to, threadIdx.x * 4, threadIdx.y);
}
extern "C" __global__ void wide(cudaSurfaceObject_t to) {
    surf2Dwrite(make_float4(1, 2, 3, 4), to, threadIdx.x * 16, threadIdx.y);
}
"""
X = np.array([-1.7, -0.5, 0.0, 0.49, 0.5, 1.25, 2.5, 3.999, 4.0, 5.2, 6.5, 7.75, 9.1], np.float32)
N = len(X)


@pytest.fixture(scope="module")
def kernel(compiled, tmp_path_factory):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    path = tmp_path_factory.mktemp("textures") / "t.cu"
    path.write_text(SOURCE)
    text = compile_ptx(path)
    return lambda entry: ptxsim.load(text, entry)


def fetch(kernel, entry, texture, x, y=X, z=X):
    out = Array(np.zeros((N, 4), np.float32), "out")
    kernel(entry).launch(
        1, N, [out, texture, *(Array(np.resize(c, N).astype(np.float32)) for c in (x, y, z))]
    )
    return out.numpy()


def place(i, size, address):
    return {
        "clamp": min(max(i, 0), size - 1),
        "border": i if 0 <= i < size else None,
        "wrap": i % size,
        "mirror": i % size if i // size % 2 == 0 else size - 1 - i % size,
    }[address]


def at(data, index, address):
    places = [place(i, n, address) for i, n in zip(index, data.shape, strict=True)]
    return 0.0 if None in places else float(data[tuple(places)])


def linear(data, where, address):
    """Sample a point with one coordinate for each dimension of the data, in elements."""
    first = [int(np.floor(w - 0.5)) for w in where]
    share = [round((w - 0.5 - f) * 256) / 256 for w, f in zip(where, first, strict=True)]
    total = 0.0
    for corner in np.ndindex(*(2,) * data.ndim):
        weight = np.prod([s if up else 1 - s for s, up in zip(share, corner, strict=True)])
        total += weight * at(data, [f + up for f, up in zip(first, corner, strict=True)], address)
    return np.float32(total)


DATA = np.random.default_rng(0).normal(size=(3, 5, 6, 8)).astype(np.float32)


@pytest.mark.parametrize("filter", ["point", "linear"])
@pytest.mark.parametrize("address", ["clamp", "border"])
def test_one_to_three_dimensions(kernel, address, filter):
    for entry, data in (("one", DATA[0, 0, 0]), ("two", DATA[0, 0]), ("three", DATA[0])):
        got = fetch(
            kernel, entry, TextureArray(data, address=address, filter=filter), X, X[::-1], X
        )
        for i in range(N):
            where = [float(c[i]) for c in (X, X[::-1], X)[: data.ndim]][::-1]
            nearest = [int(np.floor(w)) for w in where]
            want = (
                linear(data, where, address) if filter == "linear" else at(data, nearest, address)
            )
            assert got[i, 0] == np.float32(want), (entry, i)
            assert got[i, 1] == (got[i, 0] if entry == "two" else 0)


@pytest.mark.parametrize("address", ["clamp", "border", "wrap", "mirror"])
def test_normalized_coordinates(kernel, address):
    data = DATA[0, 0]
    texture = TextureArray(data, address=address, filter="linear", normalized=True)
    got = fetch(kernel, "two", texture, X / 4, X[::-1] / 5)[:, 0]
    for i in range(N):
        where = [
            float((X[::-1] / 5).astype(np.float32)[i]) * 6,
            float((X / 4).astype(np.float32)[i]) * 8,
        ]
        assert got[i] == linear(data, where, address)


def test_layers(kernel):
    for entry, data in (("rows", DATA[:, 0, 0]), ("layers", DATA[:, 0])):
        texture = TextureArray(data, layered=True)
        got = fetch(kernel, entry, texture, X, X, np.arange(N) % 4 - 0)[:, 0]
        for i in range(N):
            index = [int(np.floor(X[i]))] * (data.ndim - 1)
            assert got[i] == np.float32(at(data[min(i % 4, 2)], index, "clamp"))


@pytest.mark.parametrize(
    ("direction", "face", "s", "t"),
    [  # the guide's table: face, and coordinates on it
        ((2, 1, -1), 0, 1, -1),
        ((-2, 1, -1), 1, -1, -1),
        ((1, 2, -1), 2, 1, -1),
        ((1, -2, -1), 3, 1, 1),
        ((1, -1, 2), 4, 1, 1),
        ((1, -1, -2), 5, -1, 1),
    ],
)
def test_faces_of_a_cube(kernel, direction, face, s, t):
    data = np.arange(2 * 6 * 16 * 16, dtype=np.float32).reshape(2, 6, 16, 16)
    x, y, z = (np.array([float(c)]) for c in direction)
    one = fetch(kernel, "cube", TextureArray(data[0], cube=True), x, y, z)[0, 0]
    second = fetch(
        kernel, "cubes", TextureArray(data.reshape(-1, 16, 16), layered=True, cube=True), x, y, z
    )[0, 0]
    u, v = (int(np.floor((c / 2 + 1) / 2 * 16)) for c in (s, t))
    assert (one, second) == (data[0, face, v, u], data[1, face, v, u])


def test_components_and_bytes(kernel):
    colours = np.random.default_rng(1).normal(size=(6, 8, 4)).astype(np.float32)
    x, y = np.arange(N) % 8 + 0.5, np.arange(N) % 6 + 0.5
    got = fetch(kernel, "colours", TextureArray(colours, components=4), x, y)
    assert (got == colours[np.arange(N) % 6, np.arange(N) % 8]).all()
    raw = np.random.default_rng(2).integers(0, 256, (6, 8, 4)).astype(np.uint8)
    got = fetch(kernel, "bytes", TextureArray(raw, components=4), x, y)
    assert (got == raw[np.arange(N) % 6, np.arange(N) % 8]).all()
    got = fetch(kernel, "colours", TextureArray(raw, components=4, read="normalized"), x, y)
    assert (got == raw[np.arange(N) % 6, np.arange(N) % 8] / np.float32(255)).all()


SURFACE = """.visible .entry k(.param .u64 surface, .param .u64 out) {{
.reg .b64 %s, %o; .reg .b32 %t, %x, %y, %a, %b; ld.param.u64 %s, [surface]; ld.param.u64 %o, [out];
mov.u32 %t, %tid.x; and.b32 %x, %t, 15; sub.s32 %x, %x, 4; shl.b32 %x, %x, 2; shr.u32 %y, %t, 4;
sub.s32 %y, %y, 1; suld.b.2d.v2.b32.{mode} {{%a, %b}}, [%s, {{%x, %y}}];
mad.wide.u32 %o, %t, 8, %o; st.global.v2.u32 [%o], {{%a, %b}}; ret; }}"""


@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_surfaces_beyond_their_edges(mode):
    """Two elements from columns -4 to 11 and rows -1 to 6 of 8 columns and 5 rows."""
    data = np.arange(1, 41, dtype=np.int32).reshape(5, 8)
    out = ptxsim.Array(np.zeros((128, 2), np.int32))
    ptxsim.load(HEADER + SURFACE.format(mode=mode)).launch(1, 128, [TextureArray(data), out])
    x, y = np.arange(128) % 16 - 4, np.arange(128) // 16 - 1
    at = data[y.clip(0, 4)[:, None], x.clip(0, 6)[:, None] + np.arange(2)]
    inside = (x >= 0) & (x <= 6) & (y >= 0) & (y <= 4)
    assert (out.numpy() == (at if mode == "clamp" else at * inside[:, None])).all()


def test_surfaces(kernel):
    data, to = (
        np.arange(48, dtype=np.float32).reshape(6, 8),
        TextureArray(np.zeros((6, 8), np.float32)),
    )
    source = TextureArray(data)
    kernel("surfaces").launch(1, (8, 6), [to, source, 2])
    assert (to.numpy()[:, :6] == data[:, 2:] + 1).all() and (to.numpy()[:, 6:] == 1).all()
    kernel("surfaces").count(1, (8, 6), [TextureArray(np.zeros((6, 8), np.float32)), source, 0])
    before = to.numpy().copy()
    kernel("surfaces").count(1, (8, 6), [to, source, 0])
    assert (to.numpy() == before).all()  # only counted
    vectors = TextureArray(np.zeros((2, 4, 4), np.float32), components=4)
    kernel("wide").launch(1, (4, 2), [vectors])
    assert (vectors.numpy() == [1, 2, 3, 4]).all()
    with pytest.raises(
        ptxsim.KernelFault,
        match=r"out-of-bounds surface access of 4 bytes at \(32, 0\), x in bytes",
    ):
        kernel("surfaces").launch(1, (9, 6), [to, source, 0])


@pytest.mark.parametrize(
    ("message", "options"),
    {
        "address = 'repeat' is not allowed; allowed: clamp, border, wrap, mirror": {
            "address": "repeat"
        },
        "goes with normalized coordinates only": {"address": "wrap"},
        "takes whole numbers of 8 or 16 bits, not float32": {"read": "normalized"},
        "have 2 dimensions, not 3": {"dims": 3},
        r"components = 4 with data of shape \(6, 8\)": {"components": 4},
        "have 1 dimensions, not 2": {"cube": True},
    }.items(),
)
def test_what_cannot_be_is_refused(options, message):
    with fails(message):
        TextureArray(DATA[0, 0], **options)


def test_another_geometry_is_a_fault(kernel):
    with pytest.raises(
        ptxsim.KernelFault,
        match=r"tex\.3d\.v4\.f32\.f32 of TextureArray.*, which is no texture of 3d",
    ):
        fetch(kernel, "three", TextureArray(DATA[0, 0]), X)
    with pytest.raises(
        ptxsim.KernelFault, match=r"tex\.level\.2d.* of Texture\(.*, which is no texture of 2d"
    ):
        fetch(kernel, "two", ptxsim.Texture(Array(DATA[0]), 4), X)


def test_the_command_line(tmp_path, compiled, monkeypatch, capsys):
    compiled("faults.cu", "trap_good")  # skips where there is no compiler
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.cu").write_text(SOURCE)
    arrays = ["--arg=ones:f32:13"] * 3
    run = ["run", "t.cu", "--entry=two", "--grid=1", "--block=13", "--arg=out=o.npy=zeros:f32:13x4"]
    texture = "tex=ones:f32:6x8:dims=2:filter=linear:address=border"
    assert main([*run, "--arg", texture, *arrays]) == 0, capsys.readouterr().err
    assert (np.load("o.npy")[:, 0] == 1).all()
    for wrong, message in (
        ("tex=ones:f32:6:wrap=1", "'wrap' is not known of a texture"),
        ("tex=5", "expected tex=ARRAY"),
    ):
        assert main([*run, "--arg", wrong, *arrays]) == 2
        assert message in capsys.readouterr().err


# arrays of whole programs

WIDTH, HEIGHT = 16, 8
NUMBERS = (np.arange(WIDTH * HEIGHT) ** 2 % 37 - 11.5).astype(np.float32)
STEPS = np.arange(64, dtype=np.float32)
PLACES = (STEPS - 16) * np.float32(0.71), (40 - STEPS) * np.float32(0.33)


def sampled(data, modes, filter="linear", scale=(1.0, 1.0), places=PLACES):
    """Fetch the places [2][n] from `data` [height, width, components] by the guide's formulas."""
    found = []
    for x, y in zip(*places, strict=True):
        where = (float(y) * scale[1], float(x) * scale[0])
        first = [int(np.floor(w - 0.5 if filter == "linear" else w)) for w in where]
        share = [
            round((w - 0.5 - f) * 256) / 256 if filter == "linear" else 0
            for w, f in zip(where, first, strict=True)
        ]
        total = np.zeros(data.shape[2])
        for up in np.ndindex(2, 2):
            index = [
                place(f + u, n, m)
                for f, u, n, m in zip(first, up, data.shape, modes[::-1], strict=False)
            ]
            weight = np.prod([s if u else 1 - s for s, u in zip(share, up, strict=True)])
            if None not in index:
                total += weight * data[tuple(index)]
        found.append(total)
    return np.array(found, np.float32).ravel()


def test_arrays_of_a_program(programs):
    done = programs.run("textures")
    assert done.returncode == 0 and "no faults" in done.stderr, done.stdout[-500:] + done.stderr
    got = {
        line.split()[0]: np.array(line.split()[1:], np.float32) for line in done.stdout.splitlines()
    }
    image = NUMBERS.reshape(HEIGHT, WIDTH, 1)
    clamp, whole = ("clamp", "clamp"), (WIDTH, HEIGHT)
    v, u = (
        (np.indices((HEIGHT, WIDTH)) + 0.5) / np.array([HEIGHT, WIDTH])[:, None, None] - 0.5
    ).astype(np.float32)
    c, s = np.cos(np.float32(0.5)), np.sin(np.float32(0.5))
    turned = (u * c - v * s + np.float32(0.5)).ravel(), (v * c + u * s + np.float32(0.5)).ravel()
    want = sampled(image, ("wrap", "wrap"), scale=whole, places=turned)
    # a weight is rounded up or down
    assert np.abs(got["rotate"] - want).max() <= np.ptp(NUMBERS) / 256
    assert (got["clamp_border"] == sampled(image, ("clamp", "border"))).all()
    assert (got["mirror_wrap"] == sampled(image, ("mirror", "wrap"), "point", whole)).all()
    assert (got["unnormalized_wrap"] == sampled(image, clamp, "point")).all()
    i = np.arange(WIDTH * HEIGHT)
    colours = np.stack([i, 2 * i, 255 - i, 0 * i + 7], axis=1) % 256 / 255
    np.testing.assert_allclose(
        got["colours"], sampled(colours.reshape(HEIGHT, WIDTH, 4), clamp), rtol=1e-6
    )
    shorts = (np.stack([100 * i - 5000, -i], axis=1) / 32767).reshape(HEIGHT, WIDTH, 2)
    np.testing.assert_allclose(got["shorts"], sampled(shorts, clamp, "point"), rtol=1e-6)
    one = [linear(NUMBERS[:WIDTH], [float(x)], "clamp") for x in PLACES[0]]
    assert (
        (got["one"] == one).all()
        and (got["row"] == one).all()
        and (got["box"] == NUMBERS[:24]).all()
    )
    assert got["memory"].tolist() == [-1, -1, 0, 1, 0]
    moved = np.pad(image[:, 1:, 0], ((0, 0), (0, 1))) + 1
    assert (got["surface"] == moved.ravel()).all()


@pytest.mark.parametrize(
    ("what", "said"),
    {
        "unset": r"thread \(0, 0, 0\): read of global memory that nobody wrote \(.*cudaMallocArray at textures.cu",
        "freed": r"thread \(0, 0, 0\): TextureArray\(.*cudaMallocArray at .* was freed",
        "race": r"race between streams: cudaMemcpy2DToArrayAsync .* writes what kernel rotate, .* reads",
        "copy": r"cudaErrorInvalidValue: 8 rows of 64 bytes at byte 4 of row 0; the array has 8 rows of 64 bytes",
        "surface": r"a surface of an array that was made without cudaArraySurfaceLoadStore",
        "filter": r"filter = 'linear' takes floats, or read = 'normalized', not int32",
    }.items(),
)
def test_wrong_use_of_arrays_in_a_program(programs, what, said):
    done = programs.run("textures", what, options=["-q"])
    lines = done.stderr.splitlines()
    assert done.returncode != 0 and len(lines) == 2 and re.search(said, lines[0]), done.stderr
