"""The registry of figures and report tables. Each is registered in the head of its caption, YAML in an RST comment:

    ..
       figures:
         stalls:
           function: analysis.figures.stalls.stalls_figure
           category: 3 Counters
           title: Stall reasons
           reads: [measured]

    Why warps wait: the cycles of a warp for each instruction ...

Captions lie in workflow/report/ and in the folders of side studies; contracts/schemas/captions.schema.yaml explains the
keys. A figure's function gives a Matplotlib figure, a table's a DataFrame (or rows, under a schema), a document's its
text. It is given what its parameters name (`Registered.made`). Its module is imported when it is made, and not before.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import UserError, choose, parse_yaml_value, read_yaml, validate
from contracts import registry as recorded
from contracts.errors import suggest

ROOT = Path(__file__).resolve().parent.parent
CAPTIONS = ("workflow/report/*.rst", "experiments/studies/*/*.rst")
FINDINGS = "analysis/findings"  # a folder each; all are computed into one document, and a finding may have a figure
SOURCES = "workflow/report/ and experiments/studies/"
MEASURED = ("variants", "machine", "provenance", "bench", "checks", "counters")  # what `measured` stands for
EMULATED = "emulated_checks"  # what may stand in for measured checks
DERIVED = ("variants", "analytic")  # tables that every run makes, in addition to those recorded
FOLDERS = ("other_runs", "archives")  # what `reads` may name of inputs.json: all tables in these folders
LEFT_OUT = "left-out"  # the id of the root of an SVG that has nothing to draw (analysis.figures.style.left_out)
METRICS = "contracts/metrics.yaml"  # what analysis/data.py reads
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]+)|import[ \t]+[^\n]+)", re.M)


@dataclass(frozen=True)
class Registered:
    """A figure, table or document: what captions.schema.yaml explains, and where it is.

    kind: "figure", "table" or "document". module: dotted. path, caption: files of the project. function: in the module.
    reads, optional: recorded tables and DERIVED, "report:NAME", or files by path (*: any text). root: the project's
    folder.
    """

    name: str
    kind: str
    module: str
    path: str
    function: str
    category: str | None
    title: str
    caption: str
    subcategory: str | None = None
    reads: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    where_needed: tuple[str, ...] = ()
    reported_with: tuple[str, ...] = ()
    each: str | None = None
    stem: str = ""
    file: str = ""
    schema: str | None = None
    digits: int = 6
    page: bool = False
    root: Path = ROOT

    @property
    def code(self) -> tuple[str, ...]:
        """The files of this project that make it: its own, `Inputs`, which it is given, and all that these import."""
        files = (self.root / self.path, self.root / "analysis" / "inputs.py")
        return tuple(sorted({path for file in files for path in code_of(file, self.root)}))

    def output(self, experiment: str | None = None) -> str:
        """The name of what is drawn, without a suffix: of a figure of one experiment, STEM_EXPERIMENT."""
        return f"{self.stem}_{experiment}" if experiment else self.stem

    def applies_to(self, kind: str | None, profiled: list[int]) -> bool:
        """Whether it is drawn of each experiment of this kind, which profiles at these sizes, if any."""
        return bool(profiled) if self.each == "profiled" else self.each is not None and kind == self.each

    def load(self) -> Callable[..., Any]:
        """The function itself; imports its module. Raises `UserError` where the module has no such function."""
        loaded: Callable[..., Any] | None = getattr(importlib.import_module(self.module), self.function, None)
        if loaded is None:
            raise UserError(f"{self.caption}: {self.kind} {self.name!r}: {self.path} has no function {self.function}")
        return loaded

    def made(self, inputs: Any) -> Any:
        """What the function makes of a run's `Inputs`. Its parameters say what of them it takes: inputs, measured,
        experiment (the name), variants, claims (of this run), or a recorded table by name; defaults are kept."""
        function = self.load()
        known = {"inputs": lambda: inputs, "measured": inputs.measured, "variants": lambda: inputs.variants}
        known |= {"experiment": lambda: inputs.experiment, "claims": lambda: inputs.report("claims", "claims_table")}
        wanted = inspect.signature(function, follow_wrapped=False).parameters.values()
        names = [one.name for one in wanted if one.default is one.empty]
        for name in names:
            choose(dict.fromkeys([*known, *recorded.tables()]), name, f"parameter of {self.function}", self.path)
        return function(**{name: known[name]() if name in known else inputs.rows(name) for name in names})


def has_content(svg: Path) -> bool:
    """Whether a figure's file, if it is there, draws something; one that only says why it is left out does not."""
    if not svg.is_file():
        return True
    with svg.open() as file:  # the root element stands after the file's head, of less than a kilobyte
        return f'<g id="{LEFT_OUT}">' not in file.read(4096)


def figures(root: Path = ROOT) -> dict[str, Registered]:
    """Every figure by name, side studies' last."""
    return {one.name: one for one in _all(root) if one.kind == "figure"}


def tables(root: Path = ROOT) -> dict[str, Registered]:
    """Every report table and document by name, side studies' last."""
    return {one.name: one for one in _all(root) if one.kind != "figure"}


@functools.cache
def _all(root: Path) -> tuple[Registered, ...]:
    """Both, checked: names differ, and what they read is there. A `UserError` names the file and what is wrong."""
    found: dict[tuple[bool, str], Registered] = {}
    captions = [path for pattern in CAPTIONS for path in sorted(root.glob(pattern))]
    for one in (*(one for path in captions for one in _registered(path, root)), *_of_findings(root)):
        key = (one.kind == "figure", one.name)
        if key in found:
            other = found[key].caption
            raise UserError(f"{one.caption}: {one.kind} {one.name!r} is registered twice (also in {other})")
        found[key] = one
    made = {name for of_figure, name in found if not of_figure}
    for one in found.values():
        for name in (*one.reads, *one.optional, *one.where_needed):
            _check_source(name, one, made, root)
    return tuple(found.values())


def _check_source(name: str, one: Registered, made: set[str], root: Path) -> None:
    known = {*recorded.tables(), *DERIVED, *FOLDERS, *(f"report:{name}" for name in made)}
    if name in known or ("/" in name and any(root.glob(name))):
        return
    if name in one.optional and next(root.glob(f"data/*/{name}.csv"), None):
        return  # the table of a side study whose folder is gone; archives still have it
    what = "no such file" if "/" in name else suggest(name, known)
    raise UserError(f"{one.caption}: {one.kind} {one.name!r} reads {name!r}, which is not registered; {what}")


def _registered(path: Path, root: Path) -> Iterator[Registered]:
    """What a caption is of, as the comment in its head says."""
    comment, _, _ = path.read_text().partition("\n\n")
    if not comment.startswith("..\n"):
        return
    caption = path.relative_to(root).as_posix()
    head = parse_yaml_value(textwrap.dedent(comment[3:]), caption)
    validate(head, "captions", caption)
    for kinds, entries in head.items():
        for name, entry in entries.items():
            kind, (module, _, function) = kinds.removesuffix("s"), entry.pop("function").rpartition(".")
            code = f"{module.replace('.', '/')}.py"
            if not (root / code).is_file():
                raise UserError(f"{caption}: {kind} {name!r}: no such file: {code}")
            standard = {"category": "5 Tables", "page": True} if kind == "table" else {"category": None, "title": ""}
            reads = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
            if "measured" in reads.get("reads", ()):
                reads["optional"] = tuple(dict.fromkeys([*reads.get("optional", ()), EMULATED]))
            reads["reads"] = _expanded(reads.get("reads", ()))
            place = {"module": module, "path": code, "function": function, "caption": caption, "root": root}
            place |= {"stem": name, "file": f"{name}.{'svg' if kind == 'figure' else 'csv'}"}
            yield Registered(name=name, kind=kind, **(place | standard | entry | reads))


def findings(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """finding.yaml of each finding by name, in the paper's order."""
    paths = {path.parent.name: path for path in sorted((root / FINDINGS).glob("*/finding.yaml"))}
    found: dict[str, dict[str, Any]] = {name: read_yaml(path, "finding") for name, path in paths.items()}
    return dict(sorted(found.items(), key=lambda item: item[1]["order"]))


def _of_findings(root: Path) -> Iterator[Registered]:
    """The document of all findings, and the figure of each that has one."""
    known = findings(root)
    reads, optional = ([read for one in known.values() for read in one.get(key, ())] for key in ("reads", "optional"))
    where = {
        "path": f"{FINDINGS}/__init__.py",
        "module": "analysis.findings",
        "caption": "workflow/report/findings.rst",
    }
    common: dict[str, Any] = {"root": root, **where, "subcategory": "Findings"}
    if known:
        yield Registered("findings", "document", function="document", category=None, title="Findings",
                         file="findings.json", reads=_expanded([*reads, "measured", "report:claims", "archives"]),
                         optional=tuple(dict.fromkeys([*optional, EMULATED])), **common)  # fmt: skip
    for name, one in known.items():
        if "figure" in one:
            common |= {"path": f"{FINDINGS}/{name}/figure.py", "module": f"analysis.findings.{name}.figure"}
            yield Registered(f"finding_{name}", "figure", function="draw", category="1 Paper", title=one["figure"],
                             stem=f"finding_{name}", file=f"finding_{name}.svg", optional=(EMULATED,),
                             reads=_expanded(["measured", "report:findings"]), **common)  # fmt: skip


def _expanded(reads: Iterable[str]) -> tuple[str, ...]:
    """Each once, with the tables that `measured` stands for."""
    return tuple(dict.fromkeys(part for read in reads for part in (MEASURED if read == "measured" else (read,))))


@functools.cache
def _imported(path: Path, root: Path) -> tuple[Path, ...]:
    """The files of analysis and of the side studies that one imports directly."""
    names: list[str] = []
    for text in IMPORT.findall(path.read_text()):
        try:
            (node, *_) = ast.parse(text.strip()).body
        except SyntaxError:  # words, in a text
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if path == root / FINDINGS / "__init__.py":  # it imports the findings that are there
        names += [f"analysis.findings.{name}.finding" for name in findings(root)]
    ours = [name for name in names if name.startswith(("analysis.", "experiments.studies."))]
    return tuple(p for name in dict.fromkeys(ours) if (p := root / f"{name.replace('.', '/')}.py").is_file())


@functools.cache
def code_of(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    """A module's file and those of this project that it imports, directly or not, with what the data layer reads."""
    found: dict[Path, None] = {}
    wanted = [path]
    while wanted:
        one = wanted.pop()
        if one not in found:
            found[one] = None
            wanted += _imported(one, root)
    paths = sorted(one.relative_to(root).as_posix() for one in found)
    return (*paths, *([METRICS] if "analysis/data.py" in paths else []))


def outputs(
    experiments: Mapping[str, Mapping[str, Any]], root: Path = ROOT
) -> dict[str, tuple[Registered, str | None]]:
    """Every figure's output name, with what draws it and the experiment that it is of (None: the run).

    experiments: by name, each with `kind` and `profiled`, as inputs.json has them.
    """
    found: dict[str, tuple[Registered, str | None]] = {}
    for one in figures(root).values():
        if one.each is None:
            found[one.output()] = (one, None)
        for name, experiment in experiments.items():
            if one.applies_to(experiment["kind"], experiment["profiled"]):
                found[one.output(name)] = (one, name)
    return found
