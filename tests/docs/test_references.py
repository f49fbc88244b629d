"""What documents name exists: files, headings, modules, targets of make and Snakemake, and kernels."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from helpers import ROOT, snakemake

from kernels import catalogue

DOCS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ptxsim/README.md")]
DOCS += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = r"analysis|contracts|data|docs|experiments|kernels|paper|profiles|ptxsim|tests|workflow|\.github"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*[\w/]")
PLACEHOLDER = re.compile(r"NAME|FAMILY|MACHINE|COMMIT|\bmine\b|data/my|h100-2")
MODULE = re.compile(r"python -m ((?:analysis|contracts|experiments|kernels|ptxsim)[\w.]*)")
MAKE = re.compile(r"(?:^|`)make ([.a-z][\w./-]*)", re.M)
SNAKEMAKE = re.compile(r"snakemake --cores \d+((?: [a-z][\w./]*)+)")
KERNEL = re.compile(r"`((?:sgemm|hgemm|tf32gemm)_\w+)`")


def name(doc: Path) -> str:
    return str(doc.relative_to(ROOT))


def anchors(doc: Path) -> set[str]:
    """GitHub's anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", doc.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pasted(doc: Path) -> str:
    """The commands of a document, one a line: those of blocks and those within a sentence, without comments."""
    text = re.sub(r" *\\\n *", " ", doc.read_text())  # continued lines
    found = re.findall(r"^(?: {4,}|\$ )(\S.*)$", text, re.M)
    found += [command.replace("\n", " ") for command in re.findall(r"`([^`]+)`", text)]
    return "\n".join(re.sub(r" +# .*", "", command) for command in found) + "\n"


def is_module(dotted: str) -> bool:
    """Whether `python -m` finds it."""
    path = ROOT / dotted.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


@functools.cache
def targets() -> set[str]:
    """The named targets of Snakemake: those of this configuration, and the rules of others, such as `compare`."""
    sources = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    written = {rule for path in sources for rule in re.findall(r"^ *rule (\w+):", path.read_text(), re.M)}
    return written | set(snakemake(ROOT, "--list-rules").stdout.split())


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_links_lead_somewhere(doc: Path) -> None:
    broken = []
    for link in LINK.findall(doc.read_text()):
        path, _, anchor = link.partition("#")
        target = doc.parent / path if path else doc
        if link.startswith(("http", "mailto")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_paths_exist(doc: Path) -> None:
    text = LINK.sub("", re.sub(r"https?://\S+", "", doc.read_text()))
    named = {path for path in PATH.findall(text) if not PLACEHOLDER.search(path)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("doc", DOCS, ids=name)
def test_commands_exist(doc: Path) -> None:
    text = pasted(doc)
    assert sorted(module for module in set(MODULE.findall(text)) if not is_module(module)) == []
    rules = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert sorted(set(MAKE.findall(text)) - set(rules)) == []
    asked = {word for words in SNAKEMAKE.findall(text) for word in words.split() if "/" not in word}
    assert sorted(asked - targets()) == []


def test_kernels_are_of_the_catalogue() -> None:
    known = set(catalogue.load())
    known |= {re.sub(r"_(bf16|fp16)$", "", variant) for variant in known}
    named = {kernel for doc in DOCS for kernel in KERNEL.findall(doc.read_text())}
    worklogs = {path.name for path in (ROOT / "paper" / "worklogs").iterdir()}
    assert sorted(named - known - worklogs - {"sgemm_mine"}) == []


def test_patterns_match_what_they_are_for() -> None:
    text = "[a](gone.md#there) `analysis/gone.py` `python -m analysis.gone` `make gone` `snakemake --cores 1 gone`"
    assert LINK.findall(text) == ["gone.md#there"] and PATH.findall(text) == ["analysis/gone.py"]
    assert MODULE.findall(text) == ["analysis.gone"] and MAKE.findall(text) == ["gone"]
    assert SNAKEMAKE.findall(text) == [" gone"]
