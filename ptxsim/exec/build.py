"""Builds the stand-ins for CUDA's libraries: once for each version of them and of the CUDA
headers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..errors import PtxError, PtxsimError
from ..ptx.compiler import run, tool

SOURCES = Path(__file__).parent / "standins"
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-w"]
PROTOTYPE = re.compile(r"\b(?:CUDARTAPI|CUDAAPI|CUDARTAPI_CDECL)\s+(\w+)\s*\(")
RENAMED = re.compile(r"#define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*_v\d+)\b")
PER_THREAD = re.compile(r"__CUDA(?:RT)?_API_(PTDS|PTSZ)\((\w+)\)")


@dataclass(frozen=True)
class Library:
    """A stand-in library."""

    name: str
    sources: tuple[str, ...]
    headers: tuple[str, ...]  # whose entry points it has
    needs: tuple[str, ...] = ()
    versioned: bool = True  # whether its symbols have a version, and its name the number of CUDA's


LIBRARIES = (
    Library("cuda", ("core.cpp", "driver.cpp", "arrays.cpp"), ("cuda.h",), versioned=False),
    Library("cudart", ("cudart.cpp", "textures.cpp"), ("cuda_runtime_api.h",), ("cuda",)),
    Library("cublas", ("cublas.cpp",), (), ("cuda",)),
    Library("cublasLt", ("cublaslt.cpp",), (), ("cuda",)),
)


# of libc's functions, those that a stand-in has, with libc's version
BEFORE_LIBC = {"clock_gettime": "GLIBC_2.17"}


def include_folder() -> Path:
    """Return the folder of the CUDA headers, next to nvcc.

    Raises `PtxError` that names the remedy.
    """
    candidates = [
        Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)
    ]
    with contextlib.suppress(PtxError):
        candidates.insert(0, tool("nvcc").resolve().parent.parent)
    candidates.append(Path("/usr/local/cuda"))
    for folder in candidates:
        for include in (folder / "include", folder / "targets/x86_64-linux/include"):
            if (include / "cuda_runtime_api.h").is_file() and (include / "cuda.h").is_file():
                return include
    raise PtxError(
        "no CUDA headers, which the stand-ins are compiled with; remedy: pip install './ptxsim[nvcc]' or a toolkit"
    )


def cuda_version(include: Path) -> int:
    """Return the version of CUDA in these headers, as 13000 for CUDA 13.0."""
    found = re.search(
        r"#define\s+CUDART_VERSION\s+(\d+)", (include / "cuda_runtime_api.h").read_text()
    )
    if found is None:
        raise PtxError(f"{include / 'cuda_runtime_api.h'}: no CUDART_VERSION in it")
    return int(found[1])


def cache_folder() -> Path:
    """Return the folder for what is built once."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ptxsim"


def soname(library: Library, version: int) -> str:
    """Return the file name under which a program linked with this version of CUDA looks for the
    library.
    """
    major = version // 1000
    number = (
        "1"
        if not library.versioned
        else f"{major}.0"
        if library.name == "cudart" and major < 12
        else str(major)
    )
    return f"lib{library.name}.so.{number}"


def standins() -> Path:
    """The folder with the stand-ins, which are built if they are not there.

    Raises `PtxsimError`, one line.
    """
    include = include_folder()
    version = cuda_version(include)
    content = hashlib.sha256(f"{version} {FLAGS} {LIBRARIES}".encode())
    for path in [Path(__file__), *sorted(SOURCES.iterdir())]:
        content.update(path.read_bytes())
    folder = cache_folder() / f"standins-{version}-{content.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if shutil.which("g++") is None:
        raise PtxsimError(
            "no g++, which the stand-ins for CUDA's libraries are built with at first use"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    except OSError as error:
        raise PtxsimError(
            f"cannot write {folder.parent}: {error.strerror}; XDG_CACHE_HOME says where else"
        ) from None
    try:
        _build(made, include, version)
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    except OSError as error:
        raise PtxsimError(
            f"cannot build the stand-ins in {folder.parent}: {error.strerror}"
        ) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _run(command: list[str]) -> str:
    return run(command, f"the stand-ins cannot be built: {Path(command[0]).name}").stdout


def _build(folder: Path, include: Path, version: int) -> None:
    sources = [source for library in LIBRARIES for source in library.sources]

    def compiled(source: str) -> str:
        return _run(
            [
                "g++",
                *FLAGS,
                f"-I{include}",
                "-c",
                str(SOURCES / source),
                "-o",
                str(folder / f"{source}.o"),
            ]
        )

    with ThreadPoolExecutor() as pool:
        list(pool.map(compiled, sources))
    for library in LIBRARIES:
        _link(folder, library, include, version)
    for leftover in [
        *folder.glob("*.o"),
        *folder.glob("*.cpp"),
        *folder.glob("*.map"),
        *folder.glob("*.args"),
    ]:
        leftover.unlink()


def _link(folder: Path, library: Library, include: Path, version: int) -> None:
    """Build a library. A function that CUDA declares but the stand-in lacks reports that it is
    missing.
    """
    objects = [str(folder / f"{source}.o") for source in library.sources]
    defined = {
        line.split()[-1]
        for line in _run(["nm", "-g", "--defined-only", *objects]).splitlines()
        if line.strip()
    }
    declared: set[str] = set()
    aliases: set[tuple[str, str]] = set()
    for header in library.headers:
        text = (include / header).read_text()
        renamed = dict(RENAMED.findall(text))
        declared |= {renamed.get(name, name) for name in PROTOTYPE.findall(text)} | set(
            PROTOTYPE.findall(text)
        )
        aliases |= {(name, suffix.lower()) for suffix, name in PER_THREAD.findall(text)}
    missing = sorted(name for name in declared - defined if re.match(r"(__)?cu", name))
    stubs = folder / f"{library.name}-missing.cpp"
    lines = [
        "namespace ptxsim { int missing(const char*, void*); extern const char* const missing_names[]; }"
    ]
    lines += [
        f'extern "C" __attribute__((visibility("default"))) int {name}() '
        f'{{ return ptxsim::missing("{name}", __builtin_return_address(0)); }}'
        for name in missing
    ]
    listed = ", ".join(f'"{name}"' for name in missing)
    lines.append(
        f"const char* const ptxsim::missing_names[] = {{{listed + ', ' if listed else ''}nullptr}};"
    )
    stubs.write_text("\n".join(lines) + "\n")
    name = soname(library, version)
    arguments = folder / f"{library.name}.args"
    known = defined | set(missing)
    arguments.write_text(
        "\n".join(
            f"-Wl,--defsym={base}_{suffix}={base}"
            for base, suffix in sorted(aliases)
            if base in known
        )
    )
    script = folder / f"{library.name}.map"
    own = "".join(
        f"{of} {{ global: {symbol}; }};\n"
        for symbol, of in BEFORE_LIBC.items()
        if symbol in defined
    )
    script.write_text(
        own + (f"{name} {{ global: *; }};\n" if library.versioned else "{ global: *; };\n")
    )
    needed = [f"-l:{soname(other, version)}" for other in LIBRARIES if other.name in library.needs]
    command = [
        "g++",
        *FLAGS,
        "-shared",
        *objects,
        str(stubs),
        "-o",
        str(folder / name),
        f"-Wl,-soname,{name}",
    ]
    command += [f"-Wl,--version-script={script}", f"@{arguments}", f"-L{folder}", *needed]
    _run([*command, "-Wl,-rpath,$ORIGIN", "-ldl", "-lpthread"])
    (folder / f"lib{library.name}.so").symlink_to(name)
