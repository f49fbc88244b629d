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
    # The library has the entry points that these headers declare, of those that are installed.
    headers: tuple[str, ...]
    needs: tuple[str, ...] = ()
    # `versioned` is true where its symbols have a version, and its name has CUDA's.
    versioned: bool = True


DRIVER = ("cuda.h", "cudaGL.h", "cudaEGL.h")
RUNTIME = ("cuda_runtime_api.h", "cuda_gl_interop.h", "cuda_egl_interop.h")
LIBRARIES = (
    Library("cuda", ("core.cpp", "driver.cpp", "arrays.cpp"), DRIVER, versioned=False),
    Library("cudart", ("cudart.cpp", "textures.cpp"), RUNTIME, ("cuda",)),
    Library("cublas", ("cublas.cpp",), (), ("cuda",)),
    Library("cublasLt", ("cublaslt.cpp",), (), ("cuda",)),
    Library("nvrtc", ("nvrtc.cpp",), ()),
)


# A stand-in replaces these functions of libc, which have this version there.
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


def library_folders() -> list[Path]:
    """Return the folders of libraries next to nvcc, which may have those that need no GPU."""
    home = tool("nvcc").resolve().parent.parent
    return [folder for folder in (home / "lib", home / "lib64") if folder.is_dir()]


def cuda_version(include: Path) -> int:
    """Return the version of CUDA in these headers, as 13000 for CUDA 13.0."""
    match = re.search(
        r"#define\s+CUDART_VERSION\s+(\d+)", (include / "cuda_runtime_api.h").read_text()
    )
    if match is None:
        raise PtxError(f"{include / 'cuda_runtime_api.h'}: no CUDART_VERSION in it")
    return int(match[1])


def cache_folder() -> Path:
    """Return the folder for what is built once."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ptxsim"


def soname(library: Library, version: int) -> str:
    """Return the file name under which a program linked with this version of CUDA looks for the
    library.
    """
    number = str(version // 1000) if library.versioned else "1"
    if library.name == "cudart" and version < 12000:
        number += ".0"
    return f"lib{library.name}.so.{number}"


def standins() -> Path:
    """Return the folder with the stand-ins, which are built if they are not there.

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
        except OSError:
            # Another process was faster.
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
        command = ["g++", *FLAGS, f"-I{include}", "-c", str(SOURCES / source)]
        return _run([*command, "-o", str(folder / f"{source}.o")])

    with ThreadPoolExecutor() as pool:
        list(pool.map(compiled, sources))
    for library in LIBRARIES:
        _link(folder, library, include, version)
    for leftover in folder.iterdir():
        if leftover.suffix in (".o", ".cpp", ".map", ".args"):
            leftover.unlink()


def _declared(library: Library, include: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the functions that CUDA's headers declare for a library, and those that have another
    name, by its suffix, for the default stream of each thread.
    """
    names: set[str] = set()
    per_thread: set[tuple[str, str]] = set()
    for header in library.headers:
        text = (include / header).read_text() if (include / header).is_file() else ""
        renamed, prototypes = dict(RENAMED.findall(text)), PROTOTYPE.findall(text)
        names |= {renamed.get(name, name) for name in prototypes} | set(prototypes)
        per_thread |= {(name, suffix.lower()) for suffix, name in PER_THREAD.findall(text)}
    return names, per_thread


def _stubs(names: list[str]) -> str:
    """Return the source of functions that say that they are missing."""
    listed = "".join(f'"{name}", ' for name in names)
    head = "int missing(const char*, void*); extern const char* const missing_names[];"
    visible = 'extern "C" __attribute__((visibility("default"))) int'
    stubs = [
        f'{visible} {name}() {{ return ptxsim::missing("{name}", __builtin_return_address(0)); }}\n'
        for name in names
    ]
    array = f"const char* const ptxsim::missing_names[] = {{{listed}nullptr}};\n"
    return f"namespace ptxsim {{ {head} }}\n{''.join(stubs)}{array}"


def _link(folder: Path, library: Library, include: Path, version: int) -> None:
    """Build a library. A function that CUDA declares but the stand-in lacks reports that it is
    missing.
    """
    objects = [str(folder / f"{source}.o") for source in library.sources]
    listed = _run(["nm", "-g", "--defined-only", *objects]).splitlines()
    defined = {line.split()[-1] for line in listed if line.strip()}
    declared, per_thread = _declared(library, include)
    missing = sorted(name for name in declared - defined if re.match(r"(__)?cu", name))
    stubs, arguments, script = (
        folder / f"{library.name}{end}" for end in ("-missing.cpp", ".args", ".map")
    )
    stubs.write_text(_stubs(missing))
    aliases = sorted((n, suffix) for n, suffix in per_thread if n in defined.union(missing))
    arguments.write_text("\n".join(f"-Wl,--defsym={n}_{suffix}={n}" for n, suffix in aliases))
    name = soname(library, version)
    versions = [f"{of} {{ global: {s}; }};\n" for s, of in BEFORE_LIBC.items() if s in defined]
    versions.append(f"{name if library.versioned else ''} {{ global: *; }};\n")
    script.write_text("".join(versions))
    command = ["g++", *FLAGS, "-shared", *objects, str(stubs), "-o", str(folder / name)]
    command += [f"-Wl,-soname,{name}", f"-Wl,--version-script={script}", f"@{arguments}"]
    needed = [f"-l:{soname(other, version)}" for other in LIBRARIES if other.name in library.needs]
    _run([*command, f"-L{folder}", *needed, "-Wl,-rpath,$ORIGIN", "-ldl", "-lpthread"])
    (folder / f"lib{library.name}.so").symlink_to(name)
