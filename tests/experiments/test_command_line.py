"""Options that commands share: those of a job file stand for what is left out, and nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from contracts import UserError, write_json
from experiments import command_line

JOB = {"arch": "sm_90a", "nvcc": None, "build_dir": "results/build/sm_90a", "store": "kept", "tuned": None}
JOB |= {"lock": True, "sm_mhz": None, "memory_mhz": 1593, "sizes_step": 256}


@pytest.fixture
def job(tmp_path: Path) -> str:
    write_json(tmp_path / "job.json", "job", JOB)
    return str(tmp_path / "job.json")


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command_line.add_build_dir(parser)
    command_line.add_store(parser)
    parser.add_argument("--sizes-step", type=int)
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--memory-mhz", type=int, default=7)
    parser.add_argument("--other", default="mine")
    return parser.parse_args(words)


def test_a_job_file_gives_what_is_left_out(job: str) -> None:
    found = options("--job", job)
    assert (found.build_dir, found.store) == (Path("results/build/sm_90a"), Path("kept"))
    assert (found.sizes_step, found.lock, found.memory_mhz, found.other) == (256, True, 1593, "mine")
    assert found.catalogue.record is None and "sgemm_naive" in found.catalogue


@pytest.mark.parametrize("first", [True, False])
def test_an_option_that_is_given_counts_before_the_file_s(job: str, first: bool) -> None:
    given = ["--sizes-step", "128", "--build-dir", "b"]
    found = options(*(given if first else []), "--job", job, *([] if first else given))
    assert (found.sizes_step, found.build_dir, found.store) == (128, Path("b"), Path("kept"))


def test_a_job_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    for text, said in (("{}", "'arch' is missing"), ("{", "not JSON, truncated")):
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            options("--job", str(path))
