# Tables with a command of their own, as the registry has it: one job for all entries, or one for each. Without a GPU, of
# those that the emulator can make, for kernels of ours.


def _over(command):
    """The entries of the catalogue that a command is about, as far as they take part."""
    names = PLAN.kernels if command.each == "kernel" or command.over == "kernels" else command.over
    there = PLAN.variants if PLAN.measuring else PLAN.runnable
    return [name for name in names if name in there or name in PLAN.kernels]


def _kept_by(table, whole):
    """What stands before a command that keeps nothing itself: it takes what was made before, here or where a run began."""
    if not PLAN.measuring or table.command.kept:
        return ""
    entries = _over(table.command)
    command = "python -m experiments.stages.kept {table} {entries} --job {job} --"
    words = {"table": table.name, "job": JOB}
    if whole:
        return command.format(entries=" ".join(entries), **words)
    return lambda wildcards: command.format(entries=wildcards.entry, **words)


for _table in [registry.tables()[name] for name in PLAN.made if registry.tables()[name].command]:
    _whole = _table.command.each == "run"

    rule:
        name:
            f"measure_{_table.name}"
        input:
            [path for name in _over(_table.command) for path in built(name)]
            if _whole
            else lambda wildcards: built(wildcards.entry),
            (
                [f"{PARTS}/emulate/{name}/{EMULATED_RESULTS}" for name in _over(_table.command)]
                if _table.command.emulated
                else []
            ),
            [path for name in _table.command.builds for path in multiext(f"{BUILD}/{name}", ".cubin", ".ptx")],
            f"{_table.command.module.replace('.', '/')}.py",
            harness=HARNESS if PLAN.measuring else [],
        output:
            table=f"{RESULTS}/{_table.file}" if _whole else f"{PARTS}/{_table.name}/{{entry}}.csv",
            left_out=[f"{PARTS}/{_table.name}.left_out.txt"] if _table.command.left_out else [],
        log:
            f"results/logs/{MACHINE}/{_table.name}{'.log' if _whole else '.{entry}.log'}",
        priority: 10
        resources:
            gpu=int(PLAN.measuring),
            runtime=_table.command.minutes or 60,
        params:
            module=_table.command.module,
            entries=_over(_table.command) if _whole else lambda wildcards: wildcards.entry,
            options=_table.command.options if PLAN.measuring else f"{_table.command.options} --emulated",
            emulator=EMULATOR if _table.command.emulates or not PLAN.measuring else "",
            job=JOB,
            settings=UNTUNED if PLAN.measuring else None,
            left_out=lambda wildcards, output: f"--left-out {output.left_out}" if output.left_out else "",
            before=_kept_by(_table, _whole),
            emulated=f"--emulated {PARTS}/emulate" if _table.command.emulated else "",
        shell:
            "{params.before} python -m {params.module} {params.entries} {params.options} --job {params.job}"
            " {params.emulated} --out {output.table} {params.left_out} 2>&1 | tee {log}"

    if not _whole:

        rule:
            name:
                f"{_table.name}_table"
            input:
                [f"{PARTS}/{_table.name}/{name}.csv" for name in _over(_table.command)],
            output:
                f"{RESULTS}/{_table.file}",
            log:
                f"results/logs/{MACHINE}/{_table.name}.log",
            localrule: True
            params:
                table=_table.name,
            shell:
                "python -m experiments.stages.merge {params.table} {input} --out {output} 2>&1 | tee {log}"
