"""The launches of a program: which are checked and counted, and what is known of each."""

from __future__ import annotations

import mmap
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..count import bounds, machines, prediction
from ..count.annotate import listing
from ..count.counters import BYTES, SECTORS, Counters
from ..engine.device_memory import DeviceMemory
from ..errors import Kind, PtxsimError
from ..interface import Kernel
from ..machine.clusters import in_clusters
from ..machine.launch import Limits
from ..ptx import polling, sass
from .allocations import prepare_textures, used_textures
from .emulation import Emulation, Launch, Run
from .host_order import HostOrder
from .modules import Loaded, Modules
from .options import Options, matches
from .protocol import Error, Payload, Reply
from .records import FaultRecord, LaunchRecord
from .repeats import Repeats
from .reporter import Reporter
from .timeline import Touched, WaitsForHost, Work, merged

# At most this many launches are listed while the program runs.
MAX_LISTED = 100


class Launches:
    """Answers launches. `descriptor`: of the file that device memory lies in."""

    def __init__(
        self,
        memory: DeviceMemory,
        descriptor: int,
        modules: Modules,
        order: HostOrder,
        options: Options,
        reporter: Reporter,
        process: int,
    ) -> None:
        self.memory, self.descriptor, self.modules, self.order = memory, descriptor, modules, order
        self.options, self.reporter, self.process = options, reporter, process
        self.count = 0
        # `under_way` describes the launch that is emulated.
        self.under_way = ""
        # `told` holds the kernel, kind and place of the faults that were printed.
        self.told: set[tuple[str, str, str]] = set()
        # `shapes` holds the shapes that were counted, as `--once` asks for the first launch of
        # each.
        self.shapes: set[tuple[object, ...]] = set()
        self.repeats = Repeats(memory, order.of_host)
        # These are the last launches for --annotate and --bounds.
        self.annotated: tuple[Kernel, Counters] | None = None
        self.bounded: tuple[Launch, Run] | None = None

    def launch(self, payload: Payload) -> Reply:
        """Answer LAUNCH with the error that it ends with, what it prints, and the pages that host
        code may not touch.
        """
        loaded, launch, may_park, dependent, stream, called = self._read(payload)
        kernel, device = launch.kernel, self.memory.device
        try:
            of_cluster = kernel.cluster_of(launch.grid, launch.cluster)
        except PtxsimError as error:
            self.count += 1
            self.reporter.report("api_error", str(error))
            return Reply().u32(Error.CLUSTER_SIZE).u32(Error.NONE).u32(Error.NONE).text("")
        self.memory.finish()
        issued = self.order.timeline.issue(stream, called)
        issued.starts_next = any(
            i.opcode == "griddepcontrol" and "launch_dependents" in i.modifiers
            for i in kernel.program.code
        )
        early = self.order.timeline.overlapping(issued) if dependent else None
        touched = self._touched(kernel, may_park, issued.starts_next or early is not None)
        if touched is not None and early is not None:
            touched.watch_early()
        chosen, blocks = self._choose(launch)
        prepare_textures(self.memory)
        began, ns, self.under_way = time.perf_counter(), device.ns, called
        done = self.repeats.find(launch) if self.options.once and not chosen else None
        watch = touched or (Touched(self.memory) if self.options.once else None)
        try:
            if done is None:
                self.repeats.changes += 1
                run = Emulation(self, launch, chosen, blocks, watch).run()
            else:
                run, device.ns = Run.left_out(), ns + done.device_ns
        except WaitsForHost:
            device.ns, self.under_way = ns, ""
            return Reply().u32(Error.PARKED)
        if touched is not None and early is not None:
            run.faults += self._too_early(kernel, early, touched)
        self.count += 1
        self.shapes |= {launch.shape} if chosen else set()
        fetched, stored = used_textures(self.memory)
        record = LaunchRecord(
            process=self.process,
            number=self.count,
            kernel=kernel.name,
            title=kernel.title,
            grid=launch.grid,
            block=launch.block,
            cluster=of_cluster,
            shared_bytes=launch.shared_bytes,
            seconds=time.perf_counter() - began,
            device_ns=device.ns - ns,
            registers=loaded.registers_of(kernel.name) or None,
            profiled=self.order.profiled,
            checked=chosen,
            left_out=done is not None,
            blocks_run=run.blocks,
            sampled=run.sampled,
            faults=[replace(f, text=self.reporter.with_places(f.text)) for f in run.faults],
            notes=run.notes,
        )
        self._count(launch, run, record)
        self._report(run, record)
        self.under_way = ""
        if done is None and watch is not None and blocks is None and run.plain:
            self.repeats.keep(launch, watch, device.ns - ns)
        if done is not None and touched is not None:
            issued.reads, issued.writes = done.reads, done.writes
        elif touched is not None:
            issued.reads = merged(touched.spans(touched.read), fetched)
            issued.writes = merged(touched.spans(touched.written), stored)
        return self._reply(run).and_then(self.order.issued(issued))

    def _too_early(self, kernel: Kernel, early: Work, touched: Touched) -> list[FaultRecord]:
        """Return the race of a dependent launch with the one before it, if there is one."""
        early.reads, early.writes = touched.early_spans()
        for text, address in self.order.timeline.races(early):
            where = kernel.machine.diag.where(touched.early_touch(address))
            what = text.partition(f"{early.what} ")[2]
            message = f"race with the launch before: {what}, at {self.order.within(address)}, "
            message += "before griddepcontrol.wait (cudaGridDependencySynchronize())"
            return [FaultRecord(f"{kernel.title}: {where}: {message}", Kind.RACE, where)]
        return []

    def _read(self, payload: Payload) -> tuple[Loaded, Launch, bool, bool, int, str]:
        """Read a launch, whether it may wait for the host or begin early, its stream, and what it is
        in words.
        """
        loaded = self.modules.loaded[payload.u32()]
        kernel = self.modules.kernel_of(loaded, payload.text())
        grid, block, cluster = payload.size(), payload.size(), payload.size()
        shared, cooperative, may_park = payload.u64(), bool(payload.u32()), bool(payload.u32())
        dependent, raw = bool(payload.u32()), payload.raw()
        stream, line = payload.u64(), self.reporter.line(payload.frames())
        args = [raw[p.offset : p.offset + p.variable.size] for p in kernel.program.parameters]
        clusters = cluster if any(cluster) else None
        launch = Launch(kernel, grid, block, args, shared, clusters, cooperative)
        called = f"kernel {kernel.title}{f', launched at {line},' if line else ''}"
        return loaded, launch, may_park, dependent, stream, called

    def _touched(self, kernel: Kernel, may_park: bool, overlaps: bool) -> Touched | None:
        """Return what notes the memory that a launch touches, where its order matters."""
        if not (overlaps or self.order.timeline.streams or self.order.of_host):
            return None
        touched = Touched(self.memory)
        if may_park and not kernel.program.allocates:
            touched.of_host = self.order.of_host
        return touched

    def _choose(self, launch: Launch) -> tuple[bool, np.ndarray | None]:
        """Return whether a launch is checked and counted, and the blocks that are run; None:
        all.
        """
        options, kernel = self.options, launch.kernel
        chosen = self.count >= options.skip_launches and options.chosen(kernel.name, kernel.title)
        again = options.once and chosen and launch.shape in self.shapes
        blocks = self._sample(launch) if again or (chosen and not options.once) else None
        return chosen and not again, blocks

    def _sample(self, launch: Launch) -> np.ndarray | None:
        """Return the blocks of a large grid that are run; None: all."""
        total, wanted, kernel = launch.blocks, self.options.sample, launch.kernel
        if wanted is None or total <= wanted:
            return None
        if polling.across_blocks(kernel.machine.scheduler.polls) is not None:
            self.reporter.once(
                f"{kernel.title}: its blocks wait for each other: all of them are run, despite --sample"
            )
            return None
        cluster = kernel.cluster_of(launch.grid, launch.cluster)
        units = max(1, wanted // int(np.prod(cluster)))
        chosen = np.unique(np.linspace(0, total - 1, units).astype(np.int64))
        return np.asarray(in_clusters(launch.grid, cluster, chosen))

    def _count(self, launch: Launch, run: Run, record: LaunchRecord) -> None:
        """Add the counters of a launch to its record, and keep them for --annotate and --bounds."""
        names, options = (launch.kernel.name, launch.kernel.title), self.options
        if record.sampled and record.checked:
            record.sums = self._predict(launch, record)
        if run.counters is None:
            return
        if not record.sampled:
            record.sums = run.counters.sums()
            record.lines = costs(run.counters)
            if options.bounds and matches(options.bounds, *names):
                self.bounded = launch, run
        if options.annotate and matches(options.annotate, *names):
            self.annotated = launch.kernel, run.counters

    def _predict(self, launch: Launch, record: LaunchRecord) -> dict[str, float] | None:
        """Return counters of the whole grid, from a few blocks; computed in a private copy of the
        memory.
        """
        kernel = launch.kernel
        try:
            private = mmap.mmap(self.descriptor, len(self.memory.data), flags=mmap.MAP_PRIVATE)
            kernel.memory = self.memory.onto(np.frombuffer(private, np.uint8))
            predicted = prediction.predict(
                kernel,
                launch.grid,
                launch.block,
                launch.args,
                launch.shared_bytes,
                limits=Limits(thread_instructions=float("inf")),
                cluster=launch.cluster,
            )
            return as_sums(predicted.totals)
        except (PtxsimError, OSError) as error:
            record.notes.append(f"no counters are predicted: {error}")
            self.reporter.once(record.notes[-1])
            return None
        finally:
            kernel.memory = self.memory

    def _report(self, run: Run, record: LaunchRecord) -> None:
        """Print the faults and notes of a launch, and its line; record it. A kernel's faults of one
        line and kind are printed at its first launch that has them.
        """
        new = [
            f
            for f in run.faults
            if not f.where or (record.kernel, f.kind, f.where) not in self.told
        ]
        self.told |= {(record.kernel, fault.kind, fault.where) for fault in new}
        for fault in new:
            self.reporter.say(fault.text)
        for text in run.notes:
            self.reporter.once(text)
        if not self.options.quiet:
            if self.count <= MAX_LISTED:
                before = ", printed before" if run.faults and not new else ""
                self.reporter.say(record.line() + before)
            if self.count == MAX_LISTED:
                self.reporter.say(
                    f"note: launches after the first {MAX_LISTED} are not listed one by one; --report has them all"
                )
        self.reporter.record("launch", asdict(record))

    def _reply(self, run: Run) -> Reply:
        """Return the reply of a launch that was emulated: its own error, that of later calls, that
        of the next call alone, and what it printed.
        """
        if run.fatal == Error.NOT_SUPPORTED:
            # Nothing of the launch was done.
            return Reply().u32(run.fatal).u32(Error.NONE).u32(Error.NONE).text(run.printed)
        errors = (run.fatal, Error.NONE)
        of_context = self.options.destroy_on_device_error == "context"
        later, once = errors if of_context else reversed(errors)
        return Reply().u32(Error.NONE).u32(later).u32(once).text(run.printed)

    # the end

    def finish(self) -> None:
        """Record the texts of --annotate and --bounds; note a launch that was cut off."""
        if self.under_way:
            self.reporter.once(f"the program ended during {self.under_way.rstrip(',')}")
        if self.annotated is not None:
            try:
                near = [Path.cwd(), Path(self.reporter.executable).parent]
                text = "\n".join(listing(*self.annotated, near=near))
            except PtxsimError as error:
                text = f"ptxsim: --annotate: {error}"
            self.reporter.record("annotation", {"text": f"{text}\n"})
        if self.bounded is not None:
            try:
                text = self._bounds(*self.bounded)
            except PtxsimError as error:
                text = f"ptxsim: --bounds: {error}"
            self.reporter.record("bounds", {"text": f"{text}\n"})

    def _bounds(self, launch: Launch, run: Run) -> str:
        """Return the minimum cycles that each resource of the device needs for a launch."""
        kernel = launch.kernel
        if kernel.cubin is None or run.counters is None:
            raise PtxsimError(
                f"{kernel.title}: the program has no machine code for it with line information"
            )
        function = sass.read(kernel.cubin, kernel.name)
        work = bounds.Work.observed(run.counters, run.traffic)
        gpu = machines.of_gpu(self.options.gpu)
        return bounds.compute(function, kernel.program, work, gpu, launch.shared_bytes).table()


def as_sums(totals: Mapping[str, float]) -> dict[str, float]:
    """Return totals as they add up over launches: ratios as what they are made of."""
    sums = {name: value for name, value in totals.items() if not name.endswith(".ratio")}
    for kind in ("ld", "st"):
        ratio = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.ratio"
        sectors = totals.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum", 0)
        sums |= {ratio + BYTES: totals.get(ratio, 0) * sectors, ratio + SECTORS: sectors}
    return sums


def costs(counters: Counters) -> list[dict[str, Any]]:
    """Return the costs of the accesses of each line of the source."""
    rows = []
    for (file, line), stats in counters.by_line().items():
        row = {
            "file": file,
            "line": line,
            "wavefronts": sum(s.wavefronts for s in stats),
            "wavefronts_ideal": sum(s.ideal for s in stats),
            "sectors": sum(s.sectors for s in stats),
            "sectors_ideal": sum(s.ideal_sectors for s in stats),
            "global_bytes": sum(s.bytes for s in stats),
        }
        if row["wavefronts"] or row["sectors"]:
            rows.append(row)
    return rows
