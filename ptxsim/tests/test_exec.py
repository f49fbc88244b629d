"""`ptxsim exec`: programs that nvcc built for a GPU run here as they are, and what is wrong with
them is reported.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from exec_programs import PROGRAMS, Programs, alive, children, left, wait_for
from running import fails

from ptxsim.errors import PtxError
from ptxsim.exec import build, fatbin
from ptxsim.exec.emulation import Emulation
from ptxsim.exec.options import matches
from ptxsim.ptx.compiler import tool

SASS = ["-gencode", "arch=compute_90a,code=sm_90a"]
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="stand-ins are shared libraries of Linux"
)


# whole programs, each with its own check


def test_a_matrix_product(programs):
    done, report = programs.report("gemm", "64")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"64 x 64, [\d.]+ ms: PASS\n", done.stdout)
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"ptxsim: sgemm: grid \(4, 4\), block \(16, 16\): \d+\.\d\d s", lines[0])
    no_time = r"note: cudaEventElapsedTime at gemm.cu:\d+: emulation measures no time"
    assert re.search(no_time, lines[1])
    assert lines[3].split() == ["sgemm", "1", "13,312", "0", "4,608", "0", "32.0", "32.0"]
    summary = r"ptxsim: 1 launch of 1 kernel, \d+\.\d\d s of emulation: no faults"
    assert re.fullmatch(summary, lines[4])
    (launch,) = report["launches"]
    assert launch["grid"] == [4, 4, 1] and not launch["sampled"] and launch["faults"] == []
    assert launch["counters"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 64 * 64 * 4 / 32
    (stores,) = (row for row in launch["lines"] if row["line"] == 20)
    assert stores["file"].endswith("gemm.cu")
    assert stores["sectors"] == stores["sectors_ideal"] == 512


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("reduce", ["partial", "final_sum"]),
        ("transpose", ["transpose"]),
        ("wgmma", ["hgemm"]),
        ("features", ["smooth", "fetch", "on_managed", "add_first", "nothing"]),
        ("driver", ["add"]),
        ("linked", ["apply"]),
        ("launches", ["neighbours", "add", "(anonymous namespace)::hidden", "put"]),
    ],
)
def test_a_program(programs, name, kernels):
    if name == "linked":  # relocatable device code
        other = str(PROGRAMS / "linked_other.cu")
        programs.path(name, PROGRAMS / "linked.cu", ["-rdc=true", other])
    done, report = programs.report(name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("42\n" if name == "linked" else "PASS") in done.stdout and "no faults" in done.stderr
    launches = report["launches"]
    assert list(dict.fromkeys(launch["title"] for launch in launches)) == kernels
    if name == "wgmma":
        assert launches[0]["cluster"] == [2, 1, 1]
        # of each of 4 blocks and 3 steps a tile of A, and half a tile of B for both: 64 x 64 and 64
        # x 32 halves
        sectors = 4 * 3 * (64 * 64 + 64 * 32) * 2 / 32
        assert launches[0]["counters"]["l2_sectors_bulk_ld.sum"] == sectors


def test_cublas(programs):
    done, report = programs.report("blas")
    assert (done.returncode, done.stdout) == (1, "PASS\n"), done.stderr
    assert "cublasSscal at blas.cu:" in done.stderr and "an increment of -1" in done.stderr
    assert "cublasSgemm: 40 x 48 x 24:" in done.stderr and "by NumPy, not emulated" in done.stderr
    names = "Sgemm Sgemm GemmEx SgemmStridedBatched Sdot Snrm2 Sgemv Sgemv Saxpy Sscal Scopy DotEx"
    calls = [call["call"] for call in report["library_calls"]]
    assert calls == [*(f"cublas{name}" for name in names.split()), "cublasLtMatmul"]


def test_the_clock_of_the_device(programs):
    for gpu, sms, mhz in (("h100", 132, 1980), ("rtx5090", 170, 2407)):
        done, report = programs.report("clock", options=["--gpu", gpu])
        words = done.stdout.split()
        first, second, between = (float(words[i]) for i in (7, 9, 11))
        assert words[:7] == f"{sms} SMs at {mhz}.0 to {mhz}.0 MHz;".split(), done.stderr
        # 990 rounds of at least three instructions
        assert 20 < first < second - 3 and first + second < between
    launches = report["launches"]
    assert [launch["function"] for launch in launches] == ["stamp", "work", "work", "stamp"]
    assert [launch["profiled"] for launch in launches] == [False, False, True, False]
    assert launches[2]["device_ns"] * 1e-6 == pytest.approx(second, abs=0.01)
    assert launches[2]["registers"] > 0


@pytest.mark.parametrize(
    ("visible", "seen"), [("GPU-stand-in-1", 1), (" 3", 1), ("", 0), ("-1", 0)]
)
def test_visible_devices(programs, monkeypatch, visible, seen):
    monkeypatch.setitem(programs.environment, "CUDA_VISIBLE_DEVICES", visible)
    done = programs.run("clock", options=["-q"])
    assert (done.stdout == "0: no CUDA-capable device is detected\n") == (not seen), done.stderr


def test_planted_faults(programs):
    done, report = programs.report("faults")
    assert done.returncode == 1
    # the results of races are those of a device on which they did no harm; an access out of bounds
    # is its end
    assert done.stdout.splitlines() == [
        "launched: no error",
        "after it: an illegal memory access was encountered",
        "later: an illegal memory access was encountered",
    ]
    race, fence, outside = (launch["faults"] for launch in report["launches"])
    assert len(race) == len(fence) == len(outside) == 1 and report["faults"] == 3
    place = "race: faults.cu:10: block (0, 0, 0), thread (0, 0, 0): race: "
    assert f"{place}reads what thread (63, 0, 0) writes" in race[0]
    unfenced = r"faults.cu:22: .*race in global memory: .* writes at faults.cu:15, and no fence"
    assert re.search(unfenced, fence[0])
    bounds = r"out-of-bounds global store of 4 bytes at .* 0 bytes past the end of allocation 1 .*at faults.cu:33\)"
    assert re.search(r"faults.cu:28: .*thread \(96, 0, 0\): " + bounds, outside[0])
    assert done.stderr.rstrip().endswith("3 faults")


def test_a_fatal_fault_may_end_the_kernel_alone(programs):
    options = ["--destroy-on-device-error", "kernel", "--error-exitcode", "9", "-q"]
    done = programs.run("faults", options=options)
    assert done.returncode == 9
    assert done.stdout.splitlines()[1:] == [
        "after it: an illegal memory access was encountered",
        "later: no error",
    ]
    assert len(done.stderr.splitlines()) == 4  # the faults and the summary


def test_all_faults_of_a_launch_are_reported(programs):
    done, report = programs.report("several")
    assert done.stdout == "fatal: an illegal memory access was encountered\n", done.stderr
    assert done.returncode == 1
    survived, fatal = (sorted(launch["faults"]) for launch in report["launches"])
    assert len(survived) == 2 and len(fatal) == 2
    assert re.search(r"several.cu:7: .*: race: .*\[64 times\]$", survived[0])
    assert re.search(r"several.cu:8: .*: read of global memory that nobody wrote", survived[1])
    assert re.search(r"several.cu:14: .*: out-of-bounds global store", fatal[0])
    assert re.search(r"several.cu:16: block \(0, 0, 0\).*: race: .* times\]$", fatal[1])
    assert done.stderr.rstrip().endswith("4 faults")


def test_a_fault_of_several_launches_is_printed_once(programs):
    done = programs.run("robust", "race", "race")
    assert done.returncode == 1 and done.stdout.split() == ["64", "64", "end"]
    assert done.stderr.count("race: reads what") == 1
    assert re.search(r"block 64: [\d.]+ s, 1 fault, printed before\n", done.stderr)
    assert "2 launches of 1 kernel" in done.stderr and "2 faults" in done.stderr


def test_faults_are_accepted_or_end_a_launch(programs):
    accepted = ["--accept=race@several.cu:7=a planted race"]
    accepted.append("--accept=unwritten@several.cu:8=any value will do")
    done = programs.run("several", options=[*accepted, "-q"])
    lines = [line.split(":")[1:3] for line in done.stderr.splitlines()[:2]]
    assert lines == [[" fatal", " several.cu"]] * 2
    assert done.stderr.rstrip().endswith("2 faults")
    done = programs.run("several", options=accepted)
    note = "ptxsim: note: accepted: race at several.cu:7 [64 times]: a planted race\n"
    assert note in done.stderr
    done = programs.run("several", options=["--stop-at-first", "-q"])
    assert re.search(r"several.cu:\d+: unspecified launch failure$", done.stdout.strip())
    assert len(done.stderr.splitlines()) == 2 and "several.cu:8: " in done.stderr
    done = programs.run("several", options=["--accept", "race@several.cu:7"])
    assert done.returncode == 2 and "expected KIND@FILE:LINE=REASON" in done.stderr


def test_the_device_s_heap_outlives_launches(programs):
    done = programs.run("heap")
    assert (done.returncode, done.stdout) == (0, "no error\n"), done.stderr
    done = programs.run("heap", "read", options=["-q"])
    assert (done.returncode, done.stdout) == (1, "an illegal memory access was encountered\n")
    freed = r"add: heap.cu:22: .* 0 bytes into memory of malloc that was freed \[32,064 times\]"
    assert re.search(freed, done.stderr)
    options = ["-q", "--destroy-on-device-error", "kernel"]
    done = programs.run("heap", "read", "again", options=options)
    assert re.search(r"release: heap.cu:29: .*: free of .*: it has been freed already", done.stderr)


def test_calls_that_are_not_there(programs):
    done = programs.run("missing", options=["-q"])
    assert done.returncode == 1
    words = "cudaErrorNotSupported", "operation not supported", "1", "cudaErrorInvalidClusterSize"
    assert done.stdout.splitlines() == [*words]
    assert "6 blocks in y are no whole clusters of 4" in done.stderr
    named = [line for line in done.stderr.splitlines() if "is not emulated" in line]
    assert [re.match(r"ptxsim: (\w+) at missing.cu:(\d+) ", line).groups() for line in named] == [
        ("cudaIpcGetMemHandle", "12"),
        ("cudaIpcOpenEventHandle", "16"),
        ("cudaMallocMipmappedArray", "19"),
    ]


def test_calls_of_graphics_are_linked_and_missing():
    if not (build.include_folder() / "cuda_gl_interop.h").is_file():
        pytest.skip("the toolkit has no headers of OpenGL's interoperation")
    library = build.standins() / "libcudart.so"
    listed = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    assert " T cudaGraphicsGLRegisterBuffer@" in listed.stdout


# options


def test_kernels_are_chosen(programs):
    done = programs.run("reduce", options=["--only", "final*"])
    assert done.returncode == 0 and done.stderr.rstrip().endswith("no faults, 1 not checked")
    rows = {line.split()[0]: line.split()[2:] for line in done.stderr.splitlines()}
    assert rows["partial"] == ["-"] * 6
    assert rows["final_sum"] == ["0", "0", "4", "0", "22.7", "4.0"]
    assert programs.run("gemm", options=["--notes-exitcode", "9", "-q"]).returncode == 9
    assert programs.run("gemm", options=["-q"]).returncode == 0  # with a note of the made-up clock
    done = programs.run("faults", options=["--skip-launches", "2", "-q", "--notes-exitcode", "9"])
    assert done.returncode == 1
    fault, summary = done.stderr.splitlines()
    assert fault.startswith("ptxsim: out_of_bounds: ") and "3 launches of 3 kernels" in summary


def test_names_of_kernels():
    names = "_Z5tiledILi8EEvPf", "void tiled<8>(float *)"
    assert matches("tiled*", "tiled<8>(float *)") and matches("tiled", "tiled<8>(float *)")
    assert matches("kernel_substring=iled", *names) and matches("_Z5tiled*", *names)
    assert not matches("kernel_name=iled", *names) and not matches("kne=til", *names)


def test_a_sample_of_blocks(programs):
    done, sampled = programs.report("gemm", "128", "2", options=["--sample", "3"])
    # the program sees that most of its result is missing
    assert "FAIL" in done.stdout and done.returncode == 1
    assert "results are incomplete: --sample ran 6 of the 128 blocks of 2 launches" in done.stderr
    _, exact = programs.report("gemm", "128", "2")
    sampled, exact = sampled["launches"], exact["launches"]
    assert [launch["blocks_run"] for launch in sampled] == [3, 3]
    assert [launch["counters"] for launch in sampled] == [launch["counters"] for launch in exact]
    row = next(line for line in done.stderr.splitlines() if line.startswith("sgemm "))
    assert row.split()[-2:] == ["32.0", "32.0"]


def test_predicting_changes_no_memory(programs):
    done = programs.run("robust", "walk", options=["--sample", "2"])
    assert done.stdout == "64\nend\n", done.stderr  # 2 blocks of 32 threads
    assert re.search(r"^walks +1 +0 +0 +96 ", done.stderr, re.M)


def test_annotated_source(programs):
    done = programs.run("gemm", options=["--annotate", "sgemm"])
    assert re.search(r"│ +ta\[threadIdx.y\]\[threadIdx.x\] = a\[", done.stderr)
    assert "shared memory: 13,312 wavefronts" in done.stderr
    done = programs.run("gemm", options=["--annotate", "other", "--bounds", "sgemm"])
    assert "limiter: " in done.stderr and "NVIDIA H100" in done.stderr
    assert "--annotate: no kernel 'other' was launched and counted; launched: sgemm" in done.stderr


def test_another_device(programs):
    done = programs.run("reduce", options=["--gpu", "h200", "-q"])
    assert done.stdout.startswith("NVIDIA H200, 132 multiprocessors") and done.returncode == 0
    assert not done.stderr
    done = programs.run("gemm", options=["--gpu", "a100", "-q"])
    assert "no kernel image is available" in done.stdout and done.returncode == 3
    assert "ptxsim: gemm: the program's PTX is for compute capability 9.0 and newer" in done.stderr


def test_the_report_may_go_to_a_file(programs, tmp_path):
    log = tmp_path / "log"
    done = programs.run("robust", "beyond", options=["--log-file", str(log)])
    assert not done.stderr and done.stdout.count("cudaErrorInvalidValue") == 2
    assert "2000 bytes at the source" in log.read_text()


# what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["exit", "7"], 7, [], []),
        (["assert"], 1, ["cudaErrorAssert", "end"], [r"asserts: robust.cu:\d+: .*assertion `n == 4` failed"]),
        (["host"], 139, [], [
            r"host code at robust.cu:\d+ writes device memory at 0x\w+, 12 bytes into allocation 1 \(cudaMalloc at ",
            "ended by SIGSEGV",
        ]),
        (["host-freed"], 139, [], [r"host code at robust.cu:\d+ reads device memory .* which was freed", "SIGSEGV"]),
        (["segv"], 139, [], ["ended by SIGSEGV"]),
        (["kill"], 137, [], ["ended by SIGKILL"]),
        (
            ["printf", "written-by-kernel", "fork"],
            0,
            [
                *("before", "thread 0 of 3", "thread 1 of 3", "thread 2 of 3", "after"),
                *("child: cudaErrorInitializationError", "end"),
            ],
            [r"cannot be used after fork\(\)"],
        ),
        (["race"], 1, ["64", "end"], [r"adds_once: robust.cu:\d+: .*race: reads what thread \(63, 0, 0\) writes"]),
        (["unwritten"], 1, ["end"], [r"reads: robust.cu:\d+: .*read of global memory that nobody wrote"]),
        (
            ["free-twice", "beyond", "barrier"],
            1,
            [*["cudaErrorInvalidValue"] * 4, "cudaSuccess", "end"],
            ["is not the start of an alloc", "inside one", "976 bytes past the end", "is host memory"],
        ),
        (
            ["configuration"],
            1,
            [
                *("cudaErrorInvalidConfiguration", "cudaErrorInvalidValue"),
                *("cudaErrorCooperativeLaunchTooLarge", "cudaErrorInvalidValue"),
                *("cudaErrorUnsupportedLimit", "end"),
            ],
            [
                r"launch at robust.cu:\d+: cudaErrorInvalidConfiguration: fill with",
                "fill with 100000 bytes of dynamic shared memory; allowed: 49152",
                "fill with 5000 blocks; the NVIDIA H100 80GB HBM3 holds 4224 at a time",
                "32768001 bytes of persisting L2; the device has 32768000",
                "limit 3 is not one of the device's",
            ],
        ),
        (["freed"], 1, ["cudaErrorIllegalAddress", "end"], ["out-of-bounds global load .* which was freed"]),
        (["threads"], 1, ["20", "end"], ["cudaErrorInvalidValue: .* inside one"] * 4),
        (["huge"], 0, ["cudaErrorMemoryAllocation"] * 2 + ["ten", "end"], ["1000 GiB asked for; the NVIDIA H100"]),
    ],
)  # fmt: skip
def test_what_goes_wrong(programs, arguments, code, out, err):
    done = programs.run("robust", *arguments, options=["-q"])
    assert (done.returncode, done.stdout.splitlines()) == (code, out), done.stderr
    lines = [line for line in done.stderr.splitlines() if "of emulation" not in line]
    if arguments == ["huge"] and len(lines) == 2:  # a machine without 10 GB says so
        assert "10 GiB asked for; this machine" in lines.pop()
    assert len(lines) == len(err), done.stderr
    for line, pattern in zip(lines, err, strict=True):
        assert re.search(pattern, line), line


def test_a_launch_that_never_ends(programs):
    done = programs.run("robust", "spin", "5000", options=["--limit", "0.5", "-q"])
    assert done.returncode == 1 and done.stdout.splitlines()[0] == "cudaErrorLaunchTimeout"
    assert (
        "forever: the launch took longer than 0.5 seconds (--limit) and was ended, with 0 of its 5,000 blocks done: "
        "--sample 4 runs a few blocks" in done.stderr
    )


def test_a_long_launch_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr("ptxsim.exec.emulation.LONG", 0.05)
    lines: list[str] = []
    kernel = SimpleNamespace(machine=SimpleNamespace(state=SimpleNamespace(blocks=[96, 97])))
    under_way = object.__new__(Emulation)
    under_way.title, under_way.backwards, under_way.blocks = "k", False, None
    under_way.options = SimpleNamespace(limit=None, quiet=False)
    under_way.reporter = SimpleNamespace(say=lines.append)
    under_way.launch = SimpleNamespace(blocks=128, kernel=kernel)
    with under_way._limited():
        time.sleep(0.15)
    assert len(lines) == 1
    progress = "k: still runs after 0.05 s, with 96 of its 128 blocks done: --sample 4 "
    assert lines[0].startswith(progress)


def test_a_report_that_cannot_be_written(programs, tmp_path):
    done = programs.run("gemm", options=["-q", "--report", "/dev/full"])
    assert done.returncode == 1 and "PASS" in done.stdout
    assert done.stderr.splitlines()[-1] == "ptxsim: cannot write /dev/full: No space left on device"
    done = programs.run("gemm", options=["--report", str(tmp_path)])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ptxsim: cannot write {tmp_path}: it is a folder\n"


def busy(running: subprocess.Popen[str], name: str) -> tuple[int, int]:
    """Waits for a program's launch to be under way; the program's process and its emulator's."""

    def found() -> tuple[list[int], list[int]]:
        both = children(running.pid)
        own = [pid for pid in both if Path(f"/proc/{pid}/comm").read_text().strip() == name]
        # ticks, more than a fork takes
        return own, [pid for pid in both if pid not in own and cpu(pid) > 5]

    wait_for(lambda: all(found()), "a launch under way")
    own, emulators = found()
    return own[0], emulators[0]


def cpu(pid: int) -> int:
    """Return the ticks of processor time of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("victim", ["program", "emulator", "supervisor"])
def test_a_process_is_killed(programs, victim):
    with programs.start("robust", "spin", "1") as running:
        program, emulator = busy(running, "robust")
        pids = {"program": program, "emulator": emulator, "supervisor": running.pid}
        os.kill(pids[victim], signal.SIGKILL)
        out, err = running.communicate(timeout=60)
    wait_for(lambda: not alive(program) and not alive(emulator), "processes that end")
    if victim == "program":
        assert running.returncode == 137 and "ended by SIGKILL" in err
        note = r"note: the program ended during kernel forever, launched at robust.cu:\d+\n"
        assert re.search(note, err)
    elif victim == "emulator":
        assert running.returncode == 1 and out == "cudaErrorDevicesUnavailable\nend\n"
        assert "the emulator has ended unexpectedly" in err and "has ended by signal 9" in err
    else:
        assert running.returncode == -9
        programs.run("robust", "exit", "0")  # removes the folder that was left
    assert not [path for path in (programs.folder / "tmp").glob(f"ptxsim-exec-{running.pid}-*")]


def test_an_interrupt_ends_all(programs):
    with programs.start("robust", "sleep", options=["-q"]) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM


def test_two_programs_at_a_time(programs, tmp_path):
    both = [programs.start("gemm", str(n)) for n in (48, 64)]
    assert ["PASS" in one.communicate(timeout=100)[0] for one in both] == [True, True]
    script = tmp_path / "both.sh"
    script.write_text(f"#!/bin/sh\n{programs.path('gemm')} 32 & {programs.path('gemm')} 48\nwait\n")
    script.chmod(0o755)
    programs.path("gemm")
    done = programs.call(*programs.command("exec", str(script)))
    assert done.stdout.count("PASS") == 2 and "2 launches of 1 kernel" in done.stderr


def test_programs_that_cannot_be_run(programs, tmp_path):
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("hello")
    other.write_bytes(b"\x7fELF\x02\x01" + bytes(10) + b"\x02\x00\xf3\x00" + bytes(44))
    for path in (text, other):
        path.chmod(0o755)
    for name, what in (
        ("nothing-there", "no such program"),
        (str(text), "neither a program nor a script that begins with #!"),
        (str(tmp_path), "a folder"),
        (__file__, "not executable"),
    ):
        done = programs.call(*programs.command("exec", name))
        assert (done.returncode, done.stderr) == (2, f"ptxsim: {name}: {what}\n")
    done = programs.run(str(other))
    assert done.stderr.startswith("ptxsim: other: compiled for machine 243; this is ")
    source = str(PROGRAMS / "gemm.cu")
    done = programs.call(*programs.command("exec", source))
    assert done.returncode == 2 and f"`ptxsim nvcc -o gemm {source}`" in done.stderr
    programs.path("static", PROGRAMS / "missing.cu", ["-cudart", "static"])
    done = programs.run("static")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "linked with the static CUDA runtime" in done.stderr
    assert "nvcc -cudart shared" in done.stderr
    # PTX in the line information of its machine code
    held = programs.path("in_sass", PROGRAMS / "missing.cu", SASS)
    assert "increment: grid 1, block 1" in programs.run("in_sass").stderr
    bare = programs.folder / "bare"
    nvcc, libraries = tool("nvcc"), tool("nvcc").resolve().parent.parent / "lib"
    command = [nvcc, "-cudart", "shared", *SASS, f"-L{standins(programs)}", f"-L{libraries}"]
    subprocess.run([*command, "-o", str(bare), str(PROGRAMS / "missing.cu")], check=True)
    done = programs.run("bare", options=["-q"])
    assert "bare: its kernels are machine code only; add PTX: nvcc -gencode" in done.stderr
    alone = programs.call(str(held), LD_LIBRARY_PATH=standins(programs))
    assert "works under `ptxsim exec`" in alone.stderr and alone.stderr.count("ptxsim:") == 1


def standins(programs: Programs) -> str:
    (folder,) = (programs.folder / "cache" / "ptxsim").glob("standins-*")
    return str(folder)


def test_what_a_fat_binary_holds(programs, tmp_path):
    made = tmp_path / "compressed.fatbin"
    done = programs.nvcc("-fatbin", str(PROGRAMS / "missing.cu"), "-o", str(made))
    assert done.returncode == 0, done.stderr
    content = made.read_bytes()
    assert any(image.content is None for image in fatbin.images(content))
    text, cubin = fatbin.choose(fatbin.unpacked(content, tmp_path), 90)
    assert text.architecture == 90 and cubin.content[:4] == b"\x7fELF" and text.specific
    with fails(r"compute capability 9\.0 and newer; --gpu is of 8\.0"):
        fatbin.choose(fatbin.unpacked(content, tmp_path), 80)
    # of the program, as it is in its section, without compression
    program = programs.path("missing").read_bytes()
    magic = re.escape(fatbin.MAGIC.to_bytes(4, "little"))
    starts = [found.start() for found in re.finditer(magic, program)]
    images = [image for start in starts for image in fatbin.images(program[start:])]
    plain = [image for image in images if image.kind == fatbin.PTX]
    assert [image.content.strip() for image in plain] == [text.content.strip()]
    assert b".entry _Z9incrementPi" in text.content
    with fails("neither PTX, a cubin nor a fat binary", PtxError):
        fatbin.images(b"nothing of the kind")


# from Python

DEVICE = """
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
import sys
import time
import numpy as np
import ptxsim

ptx = open(sys.argv[1], "rb").read()
found = []
for blocks in (2, 3):
    with ptxsim.device("h200", quiet=True) as run:
        from cuda.bindings import driver
        from cuda.core import Device, LaunchConfig, ObjectCode, launch

        device = Device()
        device.set_current()
        stream = device.create_stream()
        kernel = ObjectCode.from_ptx(ptx).get_kernel("_Z9incrementPi")
        buffer = device.allocate(2 * 4, stream=stream)
        address = int(buffer.handle)
        (code,) = driver.cuMemsetD32(address, 41, 2)
        assert code == 0, code
        launch(stream, LaunchConfig(grid=1, block=1), kernel, address + 4 * (blocks - 2) * 2)
        try:
            stream.sync()
            back = np.zeros(2, np.int32)
            (code,) = driver.cuMemcpyDtoH(back.ctypes.data, address, back.nbytes)
            found.append(back.tolist())
            buffer.close(stream)
        except Exception as error:
            found.append(type(error).__name__)
        name = device.name
    found.append([len(run.launches), len(run.faults), run.errors])
print(name, found)
try:
    with ptxsim.device(), ptxsim.device():
        pass
except ptxsim.PtxsimError as error:
    print(error)
"""


def test_a_device_for_python(programs, tmp_path):
    pytest.importorskip("cuda.core")
    ptx = tmp_path / "missing.ptx"
    done = programs.nvcc("-ptx", "-arch=sm_90", str(PROGRAMS / "missing.cu"), "-o", str(ptx))
    assert done.returncode == 0, done.stderr
    done = programs.call(sys.executable, "-c", DEVICE, str(ptx))
    assert done.stdout.splitlines() == [
        "NVIDIA H200 [[42, 41], [1, 0, []], 'CUDAError', [1, 1, []]]",
        "ptxsim.device() within another one, or under `ptxsim exec`",
    ], done.stderr
    assert "out-of-bounds global load of 4 bytes" in done.stderr and left(programs.folder) == []


# `ptxsim exec` of programs as they are: graphs, repeats, function pointers, libraries, and what
# CI reads


def test_graphs_by_capture_and_by_nodes(programs):
    done = programs.run("graphs")
    assert done.stdout.splitlines() == [
        "0 calls while captured",
        "5 nodes, 2 calls, 93",  # y = 0 + 3 * 31, whichever launch of the two
        "155",
        "217, no error",
        "clone: 155",
        "cudaErrorStreamCaptureUnsupported",
    ], done.stderr
    assert "7 launches of 2 kernels" in done.stderr and "no faults, 1 other error" in done.stderr


def test_each_kernel_and_shape_is_checked_once(programs):
    done, found = programs.report("repeats", options=["--once", "--leak-check"])
    assert done.returncode == 0, done.stderr
    # 6 * 2 / 2 / 3 by function pointers; 5 + 2 steps of the first 32, 2 of the others
    assert done.stdout.splitlines() == ["2", "9 8", "ended", "1 0"]
    checked = [launch for launch in found["launches"] if launch["checked"]][:-2]
    shapes = [f"{launch['title']} {launch['block'][0]}" for launch in checked]
    assert shapes == ["apply 32", "apply_at 32", "step 32", "step 64", "copy 32"]
    # a copy of what has not changed is not made again
    again = [launch["left_out"] for launch in found["launches"] if launch["title"] == "copy"]
    assert again == [False, True, True, False, True]
    assert "--once left out 3 of copy: an earlier launch had the same arguments" in done.stderr
    assert all((each["counters"] is not None) == each["checked"] for each in found["launches"])
    assert sum("emulation measures no time" in note for note in found["notes"]) == 1
    assert [note for note in found["notes"] if "not freed" in note] == [
        "not freed when the program ended: 1,000 bytes of cudaMalloc at repeats.cu:26, allocated 1 times"
    ]


def test_a_race_on_a_lock_shows_in_one_of_two_orders(programs):
    first, both = (programs.run("repeats", options=["--orders", n]) for n in "12")
    assert first.returncode == 0 and both.returncode == 1, both.stderr
    assert first.stdout == both.stdout
    assert "note: first: with blocks and threads in the opposite order" in both.stderr
    race = r"race in global memory: .* block \(1, 0, 0\), .* in the opposite order\)"
    assert len(re.findall(race, both.stderr)) == 1


def test_once_with_a_sample_runs_later_launches_in_part(programs):
    _, report = programs.report("gemm", "64", options=["--once", "--sample", "4"])
    (only,) = report["launches"]
    assert (only["checked"], only["sampled"], only["blocks_run"]) == (True, False, 16)


def test_libraries_do_what_those_of_cuda_do(programs):
    done = programs.run("epilogues")
    assert done.stdout.splitlines() == ["0 wrong", "0 differ"], done.stderr


def test_a_kernel_that_nvrtc_compiles_to_machine_code(programs):
    if not any(path for folder in build.library_folders() for path in folder.glob("libnvrtc.so.*")):
        pytest.skip("NVRTC is not installed next to nvcc")
    done = programs.run("nvrtc")
    assert done.stdout == "NVRTC_ERROR_COMPILATION: 93\n", done.stderr
    assert "1 launch of 1 kernel" in done.stderr and "no faults" in done.stderr


def test_places_in_optimised_host_code(programs):
    done = programs.run("optimised")
    assert "allocation 1 (cudaMalloc at optimised.cu:6)" in done.stderr, done.stderr


def test_reports_for_ci(programs, tmp_path):
    xml, sarif = tmp_path / "tests.xml", tmp_path / "faults.sarif"
    options = ["--junit", str(xml), "--sarif", str(sarif), "--accept", "race=planted"]
    done = programs.run("faults", options=options)
    assert done.returncode == 1
    suite = ElementTree.parse(xml).getroot()
    cases = {case.get("name"): case.find("failure") is not None for case in suite}
    # the races are accepted, not what is out of bounds
    assert list(cases.values()) == [False, False, True, False]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (run,) = json.loads(sarif.read_text())["runs"]
    bounds = run["results"][0]
    place = bounds["locations"][0]["physicalLocation"]
    assert bounds["ruleId"] == "bounds"
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("faults.cu", 28)
