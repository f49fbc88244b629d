"""Explains what was measured: figures, tables, claims, findings, documents and pages of recorded
tables.

    python -m analysis draw --results data/h100 --out results/figures steps sizes
    python -m analysis claims --only sgemm_cu/texld-faster
    python -m analysis COMMAND --help
"""

from __future__ import annotations

import argparse
import importlib
import sys

from analysis import results
from contracts import run_command

# What each subcommand does, and the module that does it: `options` adds options, `run` takes them.
COMMANDS = {
    "draw": ("figures, each as SVG and PDF", "analysis.draw"),
    "tabulate": ("report tables", "analysis.tabulate"),
    "claims": ("verdicts on what the worklogs claim", "analysis.claims"),
    "findings": ("what the measurements show", "analysis.findings"),
    "readme": ("README's table and findings", "analysis.readme"),
    "explorer": ("the page on which a reader chooses what to see", "analysis.explorer.page"),
    "lens": ("the page of one kernel: what each line costs", "analysis.explorer.one"),
    "compare": ("two variants side by side", "analysis.compare"),
    "reproduce": ("measurements beside an archive's", "analysis.reproduce"),
    "render": ("paper and supplement", "analysis.render"),
    "site": ("explorer and papers as they are published, with every link checked", "analysis.site"),
}
# Those that read no results folder, or name their own
WITHOUT_FOLDERS = ("reproduce", "render", "site")


def main() -> int | None:
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description=(__doc__ or "").partition("\n\n")[0],
    )
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (words, path) in COMMANDS.items():
        command = subcommands.add_parser(name, help=words)
        if name == named:  # Each module imports its own libraries, which take seconds.
            module = importlib.import_module(path)
            command.description = (module.__doc__ or "").partition("\n\n")[0]
            if name not in WITHOUT_FOLDERS:
                results.add_options(command)
            module.options(command)
            command.set_defaults(run=module.run)
    options = parser.parse_args()
    done: int | None = options.run(options)
    return done


if __name__ == "__main__":
    run_command(main)
