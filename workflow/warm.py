"""Jobs of a local run, started from one process that has imported what they import.

A job of `all` is `python -m MODULE ...`, and most of the hundreds of them spend much of their time on imports. The
first job of a module has this process import it; each job is then a fork of it, with the job's own arguments,
environment and files. Nothing of a job is left to the next one.

    python -I -S workflow/warm.py -m MODULE ...    # in place of `python -m MODULE ...`, which it is where nobody serves

Imports nothing of the project itself, and little else: each job starts this file.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

PLACE = "GEMM_LADDER_WARM"  # the environment variable that names the socket
HEADER = 8  # bytes that hold a request's size
# What modules import only once they know what they are asked for
ALSO = {"analysis.draw": ("matplotlib.pyplot", "analysis.figures.style")}


def ask(arguments: list[str]) -> int:
    """Have a job run with these arguments of Python's; its exit code. Where nobody serves, become the job."""
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the job's, too: its end is waited for
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(os.environ[PLACE])
            environment = [f"{name}={value}" for name, value in os.environ.items()]
            parts = [os.getcwd(), str(len(arguments)), *arguments, *environment]
            request = "\0".join(parts).encode(errors="surrogateescape")
            socket.send_fds(server, [len(request).to_bytes(HEADER, "little")], [0, 1, 2])
            server.sendall(request)
            code = server.recv(1)
    except (OSError, KeyError):
        signal.signal(signal.SIGINT, on_interrupt)
        os.execvp("python", ["python", *arguments])
    return code[0] if code else 1


def serve(listening: int, tuned: str = "") -> list[str]:
    """Fork a job for each request, until standard input ends; then exit. Returns in each job: the arguments of it.

    `listening`: file descriptor of the socket. `tuned`: the record that jobs load the catalogue with, if any.
    """
    import contextlib
    import selectors

    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the jobs, and Snakemake this process
    waiting = selectors.DefaultSelector()
    listener = socket.socket(fileno=listening)
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(0, selectors.EVENT_READ)
    jobs: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of its process: its number, who asked
    while True:
        for key, _ in waiting.select():
            if key.fd == 0:
                sys.exit()
            elif key.fileobj is listener:
                asking = listener.accept()[0]
                with contextlib.suppress(OSError, EOFError):  # gone before it had asked
                    files, request = _read(asking)
                    _import(request[3], tuned)
                    if not (job := os.fork()):
                        signal.signal(signal.SIGINT, on_interrupt)
                        waiting.close()
                        for one in (listener, asking, *(who for _, who in jobs.values())):
                            one.close()
                        for place, file in enumerate(files):
                            os.dup2(file, place)
                            os.close(file)
                        return _become(request)
                    for file in files:
                        os.close(file)
                    process = os.pidfd_open(job)
                    jobs[process] = job, asking
                    waiting.register(process, selectors.EVENT_READ)
                    waiting.register(asking, selectors.EVENT_READ, process)
                    continue
                asking.close()
            elif key.data is not None:  # who asked was killed
                with contextlib.suppress(KeyError, ValueError):  # its job has just ended
                    waiting.unregister(key.fileobj)
                if key.data in jobs:
                    os.kill(jobs[key.data][0], signal.SIGTERM)
            else:
                job, asking = jobs.pop(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
                waiting.unregister(key.fd)
                os.close(key.fd)
                with contextlib.suppress(KeyError):
                    waiting.unregister(asking)
                with contextlib.suppress(OSError):
                    asking.sendall(bytes([code if code >= 0 else 128 - code]))
                asking.close()


def _read(asking: socket.socket) -> tuple[list[int], list[str]]:
    """A job's standard files, and its request."""
    header, files, _, _ = socket.recv_fds(asking, HEADER, 3)
    size, parts = int.from_bytes(header, "little"), b""
    while len(parts) < size:
        more = asking.recv(size - len(parts))
        if not more:
            raise EOFError
        parts += more
    return list(files), parts.decode(errors="surrogateescape").split("\0")


def _import(module: str, tuned: str) -> None:
    """Import a module as the jobs that run it do, and load the catalogue with it. What is wrong with it, they tell."""
    import contextlib
    import gc
    import importlib
    from pathlib import Path

    if _file_of(module) in sys.modules:
        return
    with contextlib.suppress(Exception):
        for name in (module, _file_of(module), *ALSO.get(module, ())):
            importlib.import_module(name)
        if catalogue := sys.modules.get("kernels.catalogue"):
            catalogue.load(Path(tuned) if tuned else None)
    gc.collect()
    gc.freeze()  # what is never looked at again stays shared with the jobs


def _file_of(module: str) -> str:
    """The module that `python -m` executes: of a package, its __main__."""
    import importlib.util

    found = importlib.util.find_spec(module)
    return f"{module}.__main__" if found and found.submodule_search_locations else module


def _become(request: list[str]) -> list[str]:
    """Take on a job's folder and environment; its arguments."""
    folder, count, *rest = request
    arguments, environment = rest[: int(count)], rest[int(count) :]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variable.partition("=")[::2] for variable in environment)
    return arguments


def main() -> None:
    if sys.argv[1:2] == ["-m"]:
        sys.exit(ask(sys.argv[1:]))
    import runpy

    _, module, *arguments = serve(int(sys.argv[1]), *sys.argv[2:])
    sys.argv = [module, *arguments]
    sys.modules.pop(_file_of(module), None)  # it runs once more, as __main__
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
