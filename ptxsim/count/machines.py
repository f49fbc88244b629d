"""The rates of GPUs that bounds need, per clock: presets and files.

A file is TOML with the fields of `Machine`; what it leaves out is taken from the preset that `like`
names ("h100"):

    like = "h100"
    name = "H100 at 1755 MHz"
    clock_mhz = 1755
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .. import gpus
from ..errors import PtxsimError


@dataclass(frozen=True, kw_only=True)
class Machine(gpus.Rates):
    """Rates of one GPU; those "per clock" are of one multiprocessor (SM), in clocks of the SM."""

    name: str
    sms: int
    # The SM clock turns DRAM bytes per second into bytes per clock.
    clock_mhz: float
    # The rate is of the whole GPU, in 10^9 bytes per second.
    dram_gb_per_s: float
    # One SM holds at most this many.
    warps: int
    blocks: int
    registers: int
    shared_bytes: int


def of_gpu(gpu: gpus.Gpu) -> Machine:
    """Return the rates of a GPU. Raises `PtxsimError` where those of its architecture are not
    known."""
    if gpu.rates is None:
        raise PtxsimError(f"the rates of the {gpu.name} are not known")
    limits = gpu.limits
    return Machine(
        name=gpu.name,
        sms=gpu.sms,
        clock_mhz=gpu.clock_mhz,
        dram_gb_per_s=gpu.dram_gb_per_s,
        **dataclasses.asdict(gpu.rates),
        warps=limits.warps,
        blocks=limits.blocks,
        registers=limits.registers,
        shared_bytes=limits.shared_bytes,
    )


PRESETS = {name: of_gpu(gpu) for name, gpu in gpus.GPUS.items() if gpu.rates}


def find(name: str) -> Machine:
    """Return the rates of a GPU by its name, or of a TOML file.

    Raises `PtxsimError`, one line, for what is neither.
    """
    if (known := gpus.ALSO.get(name, name)) in PRESETS:
        return PRESETS[known]
    path = Path(name)
    if path.suffix != ".toml":
        raise PtxsimError(
            f"GPU {name!r} is not known; known: {', '.join(PRESETS)}, or a .toml file"
        )
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise PtxsimError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PtxsimError(f"{path}: not TOML ({str(error).splitlines()[0][:200]})") from None
    like = given.pop("like", None)
    like = gpus.ALSO.get(like, like) if isinstance(like, str) else like
    if like is not None and (not isinstance(like, str) or like not in PRESETS):
        raise PtxsimError(f"{path}: like = {like!r} is not known; known: {', '.join(PRESETS)}")
    fields = dataclasses.asdict(PRESETS[like]) if like else {}
    kinds = {f.name: f.type for f in dataclasses.fields(Machine)}
    for key, value in given.items():
        if key not in kinds:
            raise PtxsimError(f"{path}: unknown key {key!r}; known: like, {', '.join(kinds)}")
        fits = (
            isinstance(value, str)
            if key == "name"
            else isinstance(value, int | float) and value > 0
        )
        if (
            not fits
            or isinstance(value, bool)
            or (kinds[key] == "int" and not isinstance(value, int))
        ):
            wanted = {"str": "text", "int": "a positive whole number"}.get(
                str(kinds[key]), "a positive number"
            )
            raise PtxsimError(f"{path}: {key} = {value!r} is not allowed; allowed: {wanted}")
        fields[key] = value
    if missing := [key for key in kinds if key not in fields]:
        raise PtxsimError(
            f"{path}: {missing[0]} is missing; give it, or like = one of {', '.join(PRESETS)}"
        )
    return Machine(**fields)


def with_sms(machine: Machine, sms: int) -> Machine:
    """Return the rates with another number of multiprocessors."""
    if sms < 1:
        raise PtxsimError(f"sms = {sms} is not allowed; allowed: a positive whole number")
    return dataclasses.replace(machine, sms=sms)
