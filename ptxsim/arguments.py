"""Arguments of a kernel on the command line.

i32:5  u64:7  f32:1.5  f64:2  f16:1  bf16:1      a scalar of a type
5  1.5                                           a scalar in the parameter's type
file.npy                                         an array
zeros:f32:256x256  ones:...  nan:...             an array of one value
random:f32:256x256[:seed]                        uniform in [-1, 1) (integers: in [0, 100))
uninit:f32:256x256                               an array that nobody has written: reading it is a fault until the
                                                 kernel has written there
tma=ARRAY:box=64x64[:swizzle=128]                a tensor map of any array above, as tma=zeros:f16:512x256:box=64x64
                                                 Further keys: shape=500x256, strides=512 (bytes, of all dimensions but
                                                 the innermost), offset=BYTES, l2_promotion=128
struct:0=ARG;8=ARG;...                           a struct passed by value: what lies at which of its bytes, with a type:
                                                 struct:0=zeros:f32:64;8=i32:5;128=tma=zeros:f16:64x64:box=64x64
tex=ARRAY[:components=1]                         a texture object over linear memory; with dims=2 (1 to 3), layered=1 or
                                                 cube=1 one over a CUDA array, a surface, too; further keys of that:
                                                 address=wrap, filter=linear, normalized=1, read=normalized
out=ARG                                          an array that is saved as ARGn.npy after the launch
out=result.npy=ARG                               ... under this name

Arrays take memory where they are touched: zeros and uninit of any size cost nothing, the others
once their contents are needed, which counting alone rarely does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from .engine.kernel import Struct
from .errors import PtxsimError
from .machine.arrays import Array, LazyArray, Texture
from .machine.memory import LARGE
from .machine.tensor_maps import TensorMap
from .machine.texture_arrays import TextureArray
from .ptx.sizes import require_memory, shown_bytes

DTYPES = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
# These keys of a tensor map have a number for each dimension.
LISTS = ("box", "shape", "strides")
MAP_KEYS = (*LISTS, "swizzle", "offset", "l2_promotion")
# These keys of a texture are numbers.
TEXTURE_NUMBERS = ("components", "dims", "layered", "cube", "normalized")
TEXTURE_KEYS = (*TEXTURE_NUMBERS, "address", "filter", "read")
# An array has at most this many bytes.
MAX_BYTES = 1 << 38
MAKERS = ("zeros", "ones", "nan", "random", "uninit")


@dataclass
class Argument:
    """A parsed argument: what to pass, and where to save it afterwards."""

    value: object
    save_as: Path | None = None
    # The parts are those of a struct.
    parts: tuple[Argument, ...] = ()

    @property
    def saved(self) -> list[Argument]:
        """Return itself, or what is in it, where it is to be saved."""
        return [*([self] if self.save_as else []), *(a for part in self.parts for a in part.saved)]


def parse_argument(text: str, number: int) -> Argument:
    """Raises `PtxsimError`, one line, where the text says nothing that is known."""
    if text.startswith("out="):
        rest = text[4:]
        name = f"arg{number}.npy"
        if "=" in rest:
            name, rest = rest.split("=", 1)
        inner = parse_argument(rest, number)
        if not isinstance(inner.value, Array | TensorMap):
            raise PtxsimError(f"argument {text!r}: only an array can be saved")
        return Argument(inner.value, Path(name))
    if text.startswith("struct:"):
        return _struct(text, number)
    if text.startswith("tex="):
        return Argument(_texture(text, number))
    if text.startswith("tma="):
        return Argument(_tensor_map(text, number))
    kind, _, rest = text.partition(":")
    label = text if len(text) <= 80 else text[:77] + "..."
    try:
        if kind in DTYPES and rest:
            dtype = np.dtype(DTYPES[kind])
            value = int(rest, 0) if dtype.kind in "iu" else float(rest)
            with np.errstate(over="ignore"):
                typed = dtype.type(value)
            if np.isinf(typed) and not math.isinf(value):
                raise ValueError(f"too large for {kind}")
            return Argument(typed)
        if kind in MAKERS:
            return Argument(_array(kind, rest.split(":"), number))
        if text.endswith(".npy"):
            return Argument(Array(_read_array(Path(text)), Path(text).stem))
        return Argument(
            float(text)
            if any(c in text for c in ".eEn") and not text.startswith("0x")
            else int(text, 0)
        )
    except (ValueError, OverflowError, KeyError) as error:
        known = "i32:5, f32:1.5, file.npy, zeros:f32:4x4, random:f32:4x4[:seed]"
        raise PtxsimError(f"argument {label!r}: {str(error)[:200]}; known forms: {known}") from None


def _struct(text: str, number: int) -> Argument:
    """Parse a struct given as `struct:0=ARG;8=ARG`."""
    parts: dict[int, Argument] = {}
    for index, part in enumerate(text.removeprefix("struct:").split(";")):
        offset, _, rest = part.partition("=")
        if not offset.strip().isdigit() or not rest:
            raise PtxsimError(
                f"argument {text!r}: expected OFFSET=ARG;OFFSET=ARG, with offsets in bytes; got {part!r}"
            )
        parts[int(offset)] = inner = parse_argument(rest, 100 * (number + 1) + index)
        if isinstance(inner.value, int | float):
            raise PtxsimError(
                f"argument {text!r}: {part!r} says no type: i32:5, u64:7, f32:1.5 and the like do"
            )
    return Argument(
        Struct({at: part.value for at, part in parts.items()}), parts=tuple(parts.values())
    )


def _texture(text: str, number: int) -> Texture | TextureArray:
    """Parse a texture given as `tex=ARRAY:components=4:dims=2:filter=linear`."""
    array, *parts = re.split(r":(?=\w+=)", text.removeprefix("tex="))
    options = dict(part.split("=", 1) for part in parts)
    inner = parse_argument(array, number).value
    if wrong := [key for key in options if key not in TEXTURE_KEYS]:
        raise PtxsimError(
            f"argument {text!r}: {wrong[0]!r} is not known of a texture; known: {', '.join(TEXTURE_KEYS)}"
        )
    if not isinstance(inner, Array) or any(
        not options[k].isdigit() for k in options if k in TEXTURE_NUMBERS
    ):
        raise PtxsimError(
            f"argument {text!r}: expected tex=ARRAY:components=4:dims=2, with an array and whole numbers"
        )
    given: dict[str, object] = {
        k: int(v) if k in TEXTURE_NUMBERS else v for k, v in options.items()
    }
    if set(given) <= {"components"}:
        return Texture(inner, int(options.get("components", 1)))
    return TextureArray(inner.numpy(), **given)  # type: ignore[arg-type]


def _tensor_map(text: str, number: int) -> TensorMap:
    """Parse `tma=ARRAY:box=...`: the options come last, each with its key."""
    array, *parts = re.split(r":(?=\w+=)", text.removeprefix("tma="))
    options: dict[str, object] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in MAP_KEYS:
            raise PtxsimError(
                f"argument {text!r}: {key!r} is not known of a tensor map; known: {', '.join(MAP_KEYS)}"
            )
        try:
            options[key] = tuple(int(n) for n in value.split("x")) if key in LISTS else value
            if key == "offset":
                options[key] = int(value)
        except ValueError:
            raise PtxsimError(
                f"argument {text!r}: {key}={value}: expected whole numbers, as in {key}=64x64"
            ) from None
    inner = parse_argument(array, number).value
    if not isinstance(inner, Array) or "box" not in options:
        raise PtxsimError(
            f"argument {text!r}: expected tma=ARRAY:box=64x64, with an array as in random:f16:512x256"
        )
    return TensorMap(inner, **options)  # type: ignore[arg-type]


def _read_array(path: Path) -> np.ndarray:
    """Read a .npy file of numbers. Raises `PtxsimError`."""
    try:
        if not path.is_file():
            raise PtxsimError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        # The array is held three times: as read, as an Array and in the launch.
        require_memory(str(path), 3 * path.stat().st_size)
        values = np.load(path, allow_pickle=False)
    except OSError as error:
        raise PtxsimError(f"{path}: {error.strerror or error}") from None
    except PtxsimError:
        raise
    except Exception as error:
        # NumPy's reader raises whatever its parts raise: struct, tokenize, ast ...
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise PtxsimError(f"{path}: not an array that NumPy can read ({reason})") from None
    if values.dtype.kind not in "biufcV" or values.dtype.fields:
        raise PtxsimError(f"{path}: an array of {values.dtype}; allowed: numbers")
    return values


def _array(kind: str, parts: list[str], number: int) -> Array:
    if len(parts) < 2 or parts[0] not in DTYPES:
        raise ValueError(f"expected {kind}:TYPE:SHAPE with a type of {', '.join(DTYPES)}")
    dtype = np.dtype(DTYPES[parts[0]])
    shape = tuple(int(size) for size in parts[1].split("x"))
    if kind == "nan" and dtype.kind in "iu":
        raise ValueError("no whole number is NaN")
    if any(size < 0 for size in shape):
        raise ValueError("a negative size")
    seed = int(parts[2]) if len(parts) > 2 else number

    def make() -> np.ndarray:
        if kind == "random":
            generator = np.random.default_rng(seed)
            values = (
                generator.integers(0, 100, shape)
                if dtype.kind in "iu"
                else generator.uniform(-1, 1, shape)
            )
            return values.astype(dtype)
        return np.full(shape, 1 if kind == "ones" else 0 if dtype.kind in "iu" else np.nan, dtype)

    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > MAX_BYTES:
        raise ValueError(f"{shown_bytes(nbytes)} are more than any GPU has")
    blank = kind == "zeros" or (kind == "uninit" and nbytes > LARGE)
    return LazyArray(
        shape, dtype, None if blank else make, f"argument {number}", unwritten=kind == "uninit"
    )


def parse_constant(text: str) -> tuple[str, Array | np.generic]:
    """Parse `NAME=ARG`: a variable of the program, and what it holds: an array or a scalar of a
    type."""
    name, _, rest = text.partition("=")
    value = parse_argument(rest, 0).value if rest else None
    if not name or not isinstance(value, Array | np.generic):
        raise PtxsimError(
            f"--constant {text!r}: expected NAME=ARG, with an array or a scalar of a type"
        )
    return name, value


def parse_size(text: str) -> tuple[int, ...]:
    """Parse `2,2` or `256` as a grid or block: one to three numbers from 0 on."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        label = text if len(text) <= 80 else text[:77] + "..."
        raise PtxsimError(f"{label!r} is no size: expected X, X,Y or X,Y,Z")
    return sizes
