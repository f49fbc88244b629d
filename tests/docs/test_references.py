"""What documents name exists: files, headings, modules, targets of make and Snakemake, and
kernels.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import ROOT

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
# some tables are targets, by their name
RECORDED = (ROOT / "contracts" / "rows.py").read_text()
KERNEL = re.compile(r"`((?:sgemm|hgemm|tf32gemm)_\w+)`")


def anchors(doc: Path) -> set[str]:
    """GitHub's anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", doc.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pasted(doc: Path) -> str:
    """The commands of a document, one a line: those of blocks and those within a sentence, without
    comments.
    """
    text = re.sub(r" *\\\n *", " ", doc.read_text())  # continued lines
    found = re.findall(r"^(?: {4,}|\$ )(\S.*)$", text, re.M)
    found += [command.replace("\n", " ") for command in re.findall(r"`([^`]+)`", text)]
    return "\n".join(re.sub(r" +# .*", "", command) for command in found) + "\n"


def is_module(dotted: str) -> bool:
    """Whether `python -m` finds it."""
    path = ROOT / dotted.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: str(doc.relative_to(ROOT)))
def test_what_a_document_names_exists(doc: Path) -> None:
    text, commands = doc.read_text(), pasted(doc)
    lost = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = doc.parent / path if path else doc
        # GitHub resolves the last two to the repository's own pages.
        if not link.startswith(("http", "mailto", "../../releases", "../../deployments")):
            lost += [] if target.exists() and (not anchor or anchor in anchors(target)) else [link]
    named = set(PATH.findall(LINK.sub("", re.sub(r"https?://\S+", "", text))))
    lost += [path for path in named if not PLACEHOLDER.search(path) and not (ROOT / path).exists()]
    lost += [module for module in MODULE.findall(commands) if not is_module(module)]
    rules = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.M)
    lost += [target for target in MAKE.findall(commands) if target not in rules]
    files = [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")]
    smk = "".join(path.read_text() for path in files)
    targets = {path.stem for path in ROOT.glob("experiments/*.yaml")}
    targets |= set(re.findall(r"^ *rule (\w+):", smk, re.M))
    asked = {word for word in " ".join(SNAKEMAKE.findall(commands)).split() if "/" not in word}
    lost += [word for word in asked if word not in targets and f'"{word}"' not in smk + RECORDED]
    assert lost == []


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
