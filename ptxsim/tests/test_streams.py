"""Streams, events and the host: what orders work that touches the same memory, and what does
not.
"""

from __future__ import annotations

import re

import pytest

RIGHT = {
    "synchronised": 8191,
    "managed": 8191,
    "event": 16382,
    "event-host": 8191,
    "halves": 8191,
    "default": 16382,
    "callback": 8192,
    "readers": 8191,
    "allocated": 0,
    "dependent": 16382,
    "map-acquired": 5,
    "map-stored": 5,
}
HOST = (
    r"race with the host: host code at streams.cu:\d+ {} what {}.* may still use, "
    r"at 0x\w+, \d+ bytes into allocation"
)
STREAMS = (
    r"race between streams: kernel twice, launched at streams.cu:\d+, reads what "
    r"kernel fill, launched at .*, writes"
)
WRONG = {
    "read-too-early": HOST.format("reads", r"cudaMemcpyAsync at streams.cu:\d+"),
    "managed-too-early": HOST.format("reads", r"kernel fill, launched at streams.cu:\d+,"),
    "other-stream": STREAMS,
    "event-too-early": STREAMS,
    "wrong-stream": HOST.format("reads", "kernel fill"),
    "source-reused": HOST.format("writes", "cudaMemcpyAsync"),
    "default-not-waited-for": STREAMS,
    "used-before-allocated": r"kernel fill, launched at .*, writes what cudaMallocAsync at streams.cu:\d+ allocates",
    "freed-too-early": r"between streams: cudaFreeAsync at .* frees what kernel fill, launched at .*, writes",
    "freed-by-host": r"with the host: cudaFree at .* frees what kernel fill, launched at .*, writes",
    "dependent-too-early": r"twice_after: streams.cu:\d+: race with the launch before: reads what kernel "
    r"fill_early, launched at .*, writes, at .*, before griddepcontrol.wait",
    "map-changed-by-host": r"tensor map in global memory that cudaMemcpy at streams.cu:\d+ changes, without a fence",
    "map-stored-without-fences": r"that thread \(0, 0, 0\) writes by an ordinary store at streams.cu:\d+, without a "
    r"fence.proxy.tensormap::generic.release and .acquire between",
    "map-changed-by-kernel": r"tensor map in global memory that by_map at streams.cu:\d+ changes, without a fence",
}


def test_what_is_ordered_is_silent(programs):
    done = programs.run("streams", *RIGHT, options=["-q"])
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.split() == [
        word for way, found in RIGHT.items() for word in (way, str(found))
    ]


@pytest.mark.parametrize("way", WRONG)
def test_what_is_not_ordered_is_reported_once(programs, way):
    done = programs.run("streams", way, way, options=["-q"])
    lines = [line for line in done.stderr.splitlines() if "of emulation" not in line]
    assert done.returncode == 1 and all(re.search(WRONG[way], line) for line in lines), done.stderr
    assert len({line.split(", at 0x")[0] for line in lines}) == 1


@pytest.mark.parametrize(("way", "noted"), [("map-acquired", False), ("map-used-first", True)])
def test_a_map_that_the_host_wrote_is_noted_where_no_fence_comes_before_its_first_use(
    programs, way, noted
):
    done = programs.run("streams", way)
    found = re.search(
        r"note: streams.cu:\d+: uses a tensor map in global memory that the host wrote, without a "
        r"fence.proxy.tensormap::generic.acquire",
        done.stderr,
    )
    assert done.returncode == 0 and (found is not None) == noted, done.stderr


@pytest.mark.parametrize(("way", "noted"), [("timed", False), ("timed-too-early", True)])
def test_a_clock_that_is_read_before_the_kernel_has_ended_is_noted(programs, way, noted):
    done = programs.run("streams", way)
    found = re.search(
        r"note: clock_gettime at streams.cu:\d+: the clock is read before the host has waited",
        done.stderr,
    )
    assert done.returncode == 0 and (found is not None) == noted, done.stderr


# by call: its error and that of the end of the capture, in global mode of a stream that waits for
# the legacy one, of another, and the same in relaxed mode; as an H200 gives them
CAPTURED = """
launch 0/0 0/0 0/0 0/0
legacy-launch 906/901 0/0 906/901 0/0
legacy-event 906/901 0/0 906/901 0/0
legacy-waits 906/901 906/901 906/901 906/901
copy 906/901 0/0 906/901 0/0
set 906/901 0/0 906/901 0/0
malloc 900/901 900/901 0/0 0/0
free 900/901 900/901 0/0 0/0
device 900/901 900/901 900/901 900/901
stream 900/901 900/901 900/901 900/901
query 900/901 900/901 900/901 900/901
other-stream 900/901 900/901 0/0 0/0
legacy-stream 906/901 900/901 906/901 0/0
event 907/901 907/901 907/901 907/901
other-event 900/901 900/901 0/0 0/0
callback 900/901 900/901 900/901 900/901
host-function 0/0 0/0 0/0 0/0
isolation 905/901 905/901 905/901 905/901
unrecorded 0/0 0/0 0/0 0/0
unjoined 0/904 0/904 0/904 0/904
fork-alone 0/0 0/0 0/0 0/0
joined 0/0 0/0 0/0 0/0
joined-too-early 0/904 0/904 0/904 0/904
ended-elsewhere 903/901 903/901 903/901 903/901
begun-twice 401/0 401/0 401/0 401/0
merged 902/901 902/901 902/901 902/901
after-an-error 901/901 901/901 901/901 901/901
exchanged 0/0 0/0 0/0 0/0
free-of-others 1/0 1/0 1/0 1/0
graph 0 0 0 1 0 0 0 0 1
instantiated 1 0 0
"""


def test_what_is_permitted_while_a_stream_is_captured(programs):
    done = programs.run("captures", options=["-q"])
    assert done.stdout.splitlines() == CAPTURED.split("\n")[1:-1], done.stderr
    assert "cudaErrorStreamCaptureInvalidated" not in done.stderr  # a consequence


# what is queued behind a kernel that polls a flag of the host: 5 is copied, 1 added, the 6 copied
# back
HELD = {
    "released": "0 6 later",
    "query": "600 600 1 6 no error",  # not ready once, even with the flag up
    # a stream that is not held goes on; what waits for the held one sees its result
    "others": "7 16",
    "event": "600 0",  # the host waited for an event, not for what comes after it
    "left": "left",
    "never": "the launch timed out and was terminated",
}


@pytest.mark.parametrize("way", HELD)
def test_a_kernel_may_wait_for_the_host(programs, way):
    done = programs.run("held", way, options=["-q"])
    assert done.stdout == HELD[way] + "\n", done.stderr
    assert done.returncode == (way == "never")
    assert ("held.cu:8: block (0, 0, 0), thread (0, 0, 0): deadlock" in done.stderr) == (
        way == "never"
    )
    assert ("6 launches and copies not done" in done.stderr) == (way == "left")
