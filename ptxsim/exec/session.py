"""A device for this process: `with ptxsim.device(): ...`, for programs in Python that use the
driver.

with ptxsim.device("h100") as run:
    from cuda.core import Device
    ...
assert not run.faults
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import gpus
from ..errors import PtxsimError
from . import build
from .options import Options
from .records import LaunchRecord, load
from .supervisor import SOCKET, PrivateFolder, Supervisor, die_with_parent

PRELOADED = ("cuda", "cudart", "cublas", "cublasLt")


@dataclass
class Session:
    """The results of a `with` block, filled at its end."""

    launches: list[LaunchRecord] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # `errors` lists calls that failed or are not supported.
    errors: list[str] = field(default_factory=list)

    def fill(self, records: list[dict[str, Any]]) -> None:
        """Take what the emulator recorded."""
        failed = ("api_error", "unsupported", "lost")
        self.launches = [load(record) for record in records if record["kind"] == "launch"]
        self.faults = [fault.text for launch in self.launches for fault in launch.faults]
        self.errors = [record["text"] for record in records if record["kind"] in failed]


@contextlib.contextmanager
def device(
    gpu: str = "h100", checks: bool = True, limit: float | None = None, quiet: bool = False
) -> Iterator[Session]:
    """Within this block, the CUDA driver is a stand-in: kernels that `cuda.core` or
    `cuda.bindings.driver` launch are emulated, checked and counted. The driver must not have been
    used before, as a library is loaded once in a process. What comes after the block in this
    process finds no device.

    Args:
        gpu: the device that the program sees: h100, h200, h100-pcie or a100.
        checks: whether to look for races, unwritten memory and missed barriers.
        limit: seconds after which a launch is ended; None: never.
        quiet: say nothing of launches without faults.

    Raises `PtxsimError` where the driver is loaded already, the stand-ins cannot be built, or
    blocks are nested.
    """
    from .command import report_lines

    gpus.find(gpu)
    if SOCKET in os.environ:
        raise PtxsimError("ptxsim.device() within another one, or under `ptxsim exec`")
    folder = build.standins()
    loaded = _loaded_driver()
    if loaded is not None and not loaded.startswith(str(folder)):
        raise PtxsimError(
            f"{loaded} is loaded already: ptxsim.device() must come before the first use of the driver"
        )
    given = json.dumps({"gpu": gpu, "checks": checks, "limit": limit, "quiet": quiet})
    command = [sys.executable, "-c", "from ptxsim.exec.session import serve; serve()", given]
    server = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        start_new_session=True,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        if not address:
            raise PtxsimError("the emulator cannot be started")
        os.environ[SOCKET] = address
        libraries = [
            ctypes.CDLL(str(folder / f"lib{name}.so"), mode=ctypes.RTLD_GLOBAL)
            for name in PRELOADED
        ]
        session = Session()
        try:
            libraries[0].ptxsim_connect()
            yield session
        finally:
            libraries[0].ptxsim_disconnect()
            os.environ.pop(SOCKET, None)
            server.stdin.close()
            session.fill(json.loads(server.stdout.read() or "[]"))
            for line in report_lines(session.launches, len(session.errors), quiet):
                print(line, file=sys.stderr)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _environment() -> dict[str, str]:
    variables = dict(os.environ)
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return variables


def _loaded_driver() -> str | None:
    """Return the path of the driver's library, if this process has one."""
    with open("/proc/self/maps") as maps:
        return next(
            (line.split()[-1] for line in maps if "libcuda.so" in line.rpartition("/")[2]), None
        )


def serve() -> None:
    """Serve as the process that listens; it ends when its standard input does."""
    die_with_parent(signal.SIGTERM)
    given = json.loads(sys.argv[1])
    options = Options(
        gpus.find(given["gpu"]), checks=given["checks"], limit=given["limit"], quiet=given["quiet"]
    )
    with PrivateFolder() as folder:
        supervisor = Supervisor(options, folder)
        ended: list[bool] = []

        def stop(*_: object) -> None:
            ended.append(True)

        signal.signal(signal.SIGTERM, stop)
        print(supervisor.address, flush=True)
        supervisor.selector.register(0, selectors.EVENT_READ, stop)
        try:
            while not ended:
                supervisor.turn(0.5)
            supervisor.selector.unregister(0)
            while supervisor.busy:
                supervisor.turn(0.1)
        finally:
            supervisor.close()
        print(json.dumps(supervisor.records), flush=True)
