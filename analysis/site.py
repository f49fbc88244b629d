"""Make the site: explorer, paper and supplement with a first page, every link checked.

    python -m analysis site --results results --out results/site

A link to a file of the site or to a place in it must lead there. One to the repository, which
--repository names, must lead to a file of this tree. Others are not followed.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from contracts import UserError, atomic_write, write_text

ROOT = Path(__file__).resolve().parents[1]
# Each file of the site with its name and what a reader finds there
PAGES = {
    "explorer.html": ("Explorer", "every rung and step, with source, counters and speed"),
    "paper.pdf": ("Paper", "the ladders, the findings and how they were measured"),
    "supplement.pdf": ("Supplement", "the tables behind the paper, and every claim"),
}
INDEX = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>GEMM Ladder</title>
<style>
body {{ font: 1.05rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem; }}
li {{ margin: .6rem 0; }}
</style>
<h1>GEMM Ladder</h1>
<p>How CUDA matrix multiplication gets fast, rung by rung: the kernels of five public worklogs and
our own, measured next to cuBLAS.</p>
<ul>
{pages}
</ul>
{repository}</html>
"""


class Links(HTMLParser):
    """The links and the named places of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if value and key in ("href", "src"):
                self.links.append(value)
            elif value and key == "id":
                self.names.add(value)


def broken_links(texts: Mapping[str, str], repository: str) -> list[str]:
    """Return each link of the pages that leads nowhere, as "page: link".

    texts: the text of each page by its name. Documents of `PAGES` are there besides.
    """
    pages = {name: Links(text) for name, text in texts.items()}
    blob = f"{repository}/blob/main/"

    def is_broken(page: str, link: str) -> bool:
        if repository and link.startswith(blob):
            return not (ROOT / unquote(link.removeprefix(blob).partition("#")[0])).exists()
        if link.startswith(("https:", "http:", "mailto:", "data:")):
            return False
        file, _, name = link.partition("#")
        if (file or page) not in pages:
            return file not in PAGES
        # The explorer's other places are states, such as "#view=steps".
        return bool(name) and "=" not in name and name not in pages[file or page].names

    return [
        f"{name}: {link}"
        for name, page in pages.items()
        for link in dict.fromkeys(page.links)
        if is_broken(name, link)
    ]


def index(repository: str) -> str:
    """Return the first page, which links to the repository where it is known."""
    items = [
        f'<li><a href="{file}">{name}</a>: {words}</li>' for file, (name, words) in PAGES.items()
    ]
    link = f'<p><a href="{repository}">Source, data and how to run it</a></p>\n'
    return INDEX.format(pages="\n".join(items), repository=link if repository else "")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `site`."""
    server, name = (os.environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY"))
    parser.add_argument(
        "--results", required=True, type=Path, metavar="DIR", help=f"has {', '.join(PAGES)}"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "--repository",
        default=f"{server}/{name}" if name else "",
        metavar="URL",
        help="that the first page links to; in a GitHub workflow its own",
    )


def run(args: argparse.Namespace) -> None:
    """Write the site. Raises `UserError` for a file that is missing and for a broken link."""
    for file in PAGES:
        if not (args.results / file).is_file():
            raise UserError(f"{args.results / file}: no such file; made by: snakemake all")
    pages = {"index.html": index(args.repository)}
    pages["explorer.html"] = (args.results / "explorer.html").read_text()
    if broken := broken_links(pages, args.repository):
        raise UserError(f"links that lead nowhere: {', '.join(broken)}")
    for file in PAGES:
        with atomic_write(args.out / file) as temporary:
            shutil.copyfile(args.results / file, temporary)
    write_text(args.out / "index.html", pages["index.html"])
    print(f"{args.out}: {len(PAGES) + 1} files, every link checked")
