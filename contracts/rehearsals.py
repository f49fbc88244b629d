"""A rehearsal: the commands of a measuring run on the emulated GPU, whose times are made up."""

from __future__ import annotations

REHEARSAL = "rehearsal: times are not measurements"  # in every output that a reader sees of one


def is_rehearsal(gpu_name: str) -> bool:
    """Whether a GPU of this name is the emulated one, such as "NVIDIA H100 rehearsal"."""
    return "rehearsal" in gpu_name.lower().split()
