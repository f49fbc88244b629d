"""The registry of figures and report tables: each is declared where it is drawn or computed, and nowhere else.

    @figure("stalls", category="3 Counters", title="Stall reasons", reads=("measured",))
    def stalls(inputs: Inputs) -> Figure: ...

A figure's function gives a Matplotlib figure, a table's a DataFrame (or rows, under a schema), a document's its text.
They stand in analysis/figures, analysis/tables and analysis/claims, and those of a side study in its own folder as
figure.py and report.py. What is registered is read from the source text: nothing is imported before it is made.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from contracts import UserError, read_yaml
from contracts import registry as recorded
from contracts.errors import suggest

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("analysis/figures/*.py", "analysis/tables/*.py", "analysis/claims/*.py")
STUDIES = ("experiments/studies/*/figure.py", "experiments/studies/*/report.py")
FINDINGS = "analysis/findings"  # a folder each; all are computed into one document, and a finding may have a figure
SOURCES = "analysis/ and experiments/studies/"
MEASURED = ("variants", "machine", "provenance", "bench", "checks", "counters")  # what reads=("measured",) stands for
EMULATED = "emulated_checks"  # what "measured" may take in their place
DERIVED = ("variants", "analytic")  # tables that every run makes, beside those recorded
FOLDERS = ("other_runs", "archives")  # what reads= may name of inputs.json: all tables in these folders
KINDS = ("ladder", "sizes", "data_kinds", "problems", "profiled")  # of experiments that a figure may be drawn for
METRICS = "contracts/metrics.yaml"  # what analysis/data.py reads
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registered:
    """A figure, table or document. `figure`, `table` and `document` explain the fields that they take.

    kind: "figure", "table" or "document". module: dotted. path, caption: files of the project. function: in the
    module. reads, optional: recorded tables and DERIVED, "report:NAME", or files by path (*: any text).
    root: the project's folder.
    """

    name: str
    kind: str
    module: str
    path: str
    function: str
    category: str | None
    subcategory: str | None
    title: str
    caption: str
    reads: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    where_needed: tuple[str, ...] = ()
    reported_with: tuple[str, ...] = ()
    per: str = "run"
    applies: str | None = None
    stem: str = ""
    file: str = ""
    schema: str | None = None
    digits: int = 6
    page: bool = False
    root: Path = ROOT

    @property
    def code(self) -> tuple[str, ...]:
        """The files of this project that the module imports, directly or not, and its own."""
        return code_of(self.root / self.path, self.root)

    def output(self, experiment: str | None = None) -> str:
        """The name of what is drawn, without a suffix: of a figure of one experiment, STEM_EXPERIMENT."""
        return f"{self.stem}_{experiment}" if experiment else self.stem

    def applies_to(self, kind: str | None, profiled: list[int]) -> bool:
        """Whether a figure of one experiment is drawn of one of this kind, which profiles at these sizes, if any."""
        return self.per == "experiment" and (bool(profiled) if self.applies == "profiled" else kind == self.applies)

    def load(self) -> Callable[..., Any]:
        """The function itself; imports its module."""
        loaded: Callable[..., Any] = getattr(importlib.import_module(self.module), self.function)
        return loaded


def figure(
    name: str,
    *,
    category: str,
    title: str = "",
    subcategory: str | None = None,
    caption: str | None = None,
    reads: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    where_needed: tuple[str, ...] = (),
    reported_with: tuple[str, ...] = (),
    per: str = "run",
    applies: str | None = None,
    stem: str | None = None,
) -> Callable[[F], F]:
    """Register a figure: NAME.svg and NAME.pdf, drawn by a function of `Inputs`.

    category, subcategory, title, caption: its place in the report (default: workflow/report/NAME.rst, or NAME.rst in
    the study's folder).
    reads: what it needs, "measured" for all that `Inputs.measured` reads. optional: recorded tables that need not be
    there. where_needed: optional tables without which it is not drawn; reported_with: or is in no report
    ("other_runs": there is a second run). per: "run", or "experiment" for one of each that `applies`: a kind, or
    "profiled"; then files are called STEM_EXPERIMENT (default: NAME), and the title is the experiment's.
    """
    return lambda function: function


def table(
    name: str,
    *,
    title: str,
    category: str = "5 Tables",
    subcategory: str | None = None,
    caption: str = "workflow/report/tables.rst",
    reads: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    where_needed: tuple[str, ...] = (),
    reported_with: tuple[str, ...] = (),
    schema: str | None = None,
    digits: int = 6,
    page: bool = True,
) -> Callable[[F], F]:
    """Register a report table: NAME.csv, made by a function of `Inputs`; see `figure` for the place and what it reads.

    It gives a DataFrame, of which floats are written to so many significant digits, or rows under a `schema`.
    page: whether it may be on a page that can be sorted and searched.
    """
    return lambda function: function


def document(
    name: str,
    *,
    file: str,
    title: str = "",
    category: str | None = None,
    subcategory: str | None = None,
    caption: str = "workflow/report/tables.rst",
    reads: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    where_needed: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Register a text that stands among the report tables as `file`, made by a function of `Inputs`."""
    return lambda function: function


REGISTER: dict[str, Callable[..., Any]] = {"figure": figure, "table": table, "document": document}
DECORATOR = re.compile(rf"@(?:registry\.)?({'|'.join(REGISTER)})\(")
# Whole files are not parsed: that took a third of the time in which a Snakefile is read
DECORATED = re.compile(r"^(?:@.*\n(?:[ \t)#].*\n|\n)*)+def \w+\(", re.M)  # a function's decorators, and its name
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]+(?:\([^)]*\)|[^\n(]+)|import[ \t]+[^\n]+)", re.M)


def figures(root: Path = ROOT) -> dict[str, Registered]:
    """Every figure by name, side studies' last."""
    return {one.name: one for one in _all(root) if one.kind == "figure"}


def tables(root: Path = ROOT) -> dict[str, Registered]:
    """Every report table and document by name, side studies' last."""
    return {one.name: one for one in _all(root) if one.kind != "figure"}


@functools.cache
def _all(root: Path) -> tuple[Registered, ...]:
    """Both, checked: names differ, and what they read is there. A `UserError` names the file and what is wrong."""
    files = [path for pattern in (*PLACES, *STUDIES) for path in sorted(root.glob(pattern))]
    found: dict[tuple[bool, str], Registered] = {}
    declared = [one for path in files for one in _declared(path, root)]
    for one in (*declared, *_of_findings(root)):
        key = (one.kind == "figure", one.name)
        if key in found:
            raise UserError(f"{one.path}: {one.kind} {one.name!r} is registered twice (also in {found[key].path})")
        found[key] = one
    told = {name for of_figure, name in found if not of_figure}
    for one in found.values():
        for name in (*one.reads, *one.optional, *one.where_needed):
            _check_source(name, one, told, root)
    return tuple(found.values())


def findings(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """finding.yaml of each finding by name, in the paper's order."""
    paths = {path.parent.name: path for path in sorted((root / FINDINGS).glob("*/finding.yaml"))}
    told: dict[str, dict[str, Any]] = {name: read_yaml(path, "finding") for name, path in paths.items()}
    return dict(sorted(told.items(), key=lambda item: item[1]["order"]))


def _of_findings(root: Path) -> Iterator[Registered]:
    """The document of all findings, and the figure of each that has one."""
    told = findings(root)
    reads, optional = ([read for one in told.values() for read in one.get(key, ())] for key in ("reads", "optional"))
    where = {
        "path": f"{FINDINGS}/__init__.py",
        "module": "analysis.findings",
        "caption": "workflow/report/findings.rst",
    }
    common: dict[str, Any] = {"root": root, **where, "subcategory": "Findings"}
    if told:
        yield Registered("findings", "document", function="document", category=None, title="Findings",
                         file="findings.json", reads=_expanded([*reads, "measured", "report:claims"]),
                         optional=tuple(dict.fromkeys([*optional, EMULATED])), **common)  # fmt: skip
    for name, one in told.items():
        if "figure" in one:
            common |= {"path": f"{FINDINGS}/{name}/figure.py", "module": f"analysis.findings.{name}.figure"}
            yield Registered(f"finding_{name}", "figure", function="draw", category="1 Paper", title=one["figure"],
                             stem=f"finding_{name}", file=f"finding_{name}.svg", optional=(EMULATED,),
                             reads=_expanded(["measured", "report:findings"]), **common)  # fmt: skip


def _expanded(reads: Iterable[str]) -> tuple[str, ...]:
    """Each once, with the tables that "measured" stands for."""
    return tuple(dict.fromkeys(part for read in reads for part in (MEASURED if read == "measured" else (read,))))


def _check_source(name: str, one: Registered, told: set[str], root: Path) -> None:
    known = {*recorded.tables(), *DERIVED, *FOLDERS, *(f"report:{name}" for name in told)}
    if name in known or ("/" in name and any(root.glob(name))):
        return
    if name in one.optional and next(root.glob(f"data/*/{name}.csv"), None):
        return  # the table of a side study whose folder is gone; archives still have it
    what = "no such file" if "/" in name else suggest(name, known)
    raise UserError(f"{one.path}: {one.kind} {one.name!r} reads {name!r}, which is not registered; {what}")


def _declared(path: Path, root: Path) -> Iterator[Registered]:
    """What the functions of one file are registered as."""
    where = path.relative_to(root).as_posix()
    for block in DECORATED.findall(path.read_text()):
        if not DECORATOR.search(block):
            continue
        try:
            (node,) = ast.parse(f"{block}): ...").body
        except SyntaxError as error:
            raise UserError(f"{where}: not Python ({error.msg}): {block.partition(chr(10))[0]}") from error
        assert isinstance(node, ast.FunctionDef)
        for call in node.decorator_list:
            match = DECORATOR.match("@" + ast.unparse(call))
            if match and isinstance(call, ast.Call):
                kind = match[1]
                yield _registered(kind, call, node.name, where, root)


def _registered(kind: str, call: ast.Call, function: str, where: str, root: Path) -> Registered:
    allowed = [name for name in inspect.signature(REGISTER[kind]).parameters if name != "name"]
    given: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg not in allowed:
            raise UserError(f"{where}: @{kind}: unknown keyword {keyword.arg!r}; {suggest(str(keyword.arg), allowed)}")
        given[keyword.arg] = _literal(keyword.value, f"{where}: @{kind}: {keyword.arg}")
    if len(call.args) != 1:
        raise UserError(f"{where}: @{kind} of {function}: {len(call.args)} names; allowed: one")
    name = _literal(call.args[0], f"{where}: @{kind}: the name")
    bound = inspect.signature(REGISTER[kind]).bind_partial(name, **given)
    if missing := [
        n for n, p in bound.signature.parameters.items() if p.default is p.empty and n not in bound.arguments
    ]:
        raise UserError(f"{where}: @{kind} {name!r}: {missing[0]} is missing")
    bound.apply_defaults()
    told = bound.arguments
    for key in ("reads", "optional", "where_needed", "reported_with"):
        if not isinstance(told.get(key, ()), tuple):
            raise UserError(
                f"{where}: {kind} {name!r}: {key} = {told[key]!r} is not allowed; allowed: a tuple of names"
            )
    per, applies = told.get("per", "run"), told.get("applies")
    if per not in ("run", "experiment") or (per == "experiment") != (applies in KINDS):
        odd = f"per = {per!r}, applies = {applies!r}"
        known = f"'run', or 'experiment' with applies = one of {', '.join(KINDS)}"
        raise UserError(f"{where}: {kind} {name!r}: {odd} is not allowed; allowed: {known}")
    told["reads"] = _expanded(told["reads"])
    if "measured" in dict(given).get("reads", ()) and EMULATED not in told["optional"]:
        told["optional"] = (*told["optional"], EMULATED)
    own = f"{where.rpartition('/')[0]}/{name}.rst"  # a study's, in its folder
    told["caption"] = told["caption"] or (own if (root / own).is_file() else f"workflow/report/{name}.rst")
    if not (root / told["caption"]).is_file():
        raise UserError(f"{where}: {kind} {name!r} has no caption: no such file: {told['caption']}")
    told["stem"] = told.get("stem") or name
    told["file"] = told.get("file") or (f"{name}.svg" if kind == "figure" else f"{name}.csv")
    module = where.removesuffix(".py").replace("/", ".")
    return Registered(kind=kind, module=module, path=where, function=function, root=root, **told)


def _literal(node: ast.expr, where: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise UserError(f"{where} = {ast.unparse(node)} is not allowed; allowed: a literal") from None


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
        if one.per == "run":
            found[one.output()] = (one, None)
        for name, experiment in experiments.items():
            if one.applies_to(experiment["kind"], experiment["profiled"]):
                found[one.output(name)] = (one, name)
    return found
