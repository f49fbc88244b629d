"""The published site: its links lead somewhere, and its workflow runs what this tree has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from helpers import ROOT, run_module

from analysis import site

WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_site_has_explorer_and_papers_and_a_broken_link_is_refused(
    made: Path, tmp_path: Path
) -> None:
    command = ("analysis", "site", "--repository", "https://example.org/x", "--out", tmp_path)
    done = run_module(*command, "--results", made)
    assert done.returncode == 0, done.stderr
    files = {*site.PAGES, "index.html"}
    assert {path.name for path in tmp_path.iterdir()} == files
    text = (tmp_path / "index.html").read_text()
    assert all(f'href="{file}"' in text for file in site.PAGES)
    assert 'href="https://example.org/x"' in text
    blob = "https://example.org/x/blob/main"
    planted = ("gone.pdf", "#gone", f"{blob}/gone.md", f"{blob}/README.md", "paper.pdf")
    links = " ".join(f'<a href="{link}">x</a>' for link in planted)
    broken = [f"index.html: {link}" for link in planted[:3]]
    assert site.broken_links({"index.html": text + links}, "https://example.org/x") == broken
    done = run_module("analysis", "site", "--out", tmp_path / "x", "--results", tmp_path / "none")
    assert done.returncode == 2 and "explorer.html: no such file" in done.stderr
    assert not (tmp_path / "x").exists()


def test_workflows_pin_their_actions_and_run_targets_of_this_tree() -> None:
    for path in sorted(WORKFLOWS.glob("*.yml")):
        text = path.read_text()
        yaml.safe_load(text)
        actions = re.findall(r"uses: (actions/\S+)", text)
        assert actions and all(re.search(r"@[0-9a-f]{40}$", name) for name in actions), path
    text = (WORKFLOWS / "pages.yml").read_text()
    (target,) = re.findall(r"snakemake --cores 2 (\w+)", text)
    (path,) = re.findall(r"path: (\S+)\n", text)
    rules = (ROOT / "Snakefile").read_text() + (ROOT / "workflow/rules/report.smk").read_text()
    assert f"rule {target}:" in rules and f'"{path}/index.html"' in rules
    assert all(file in text for file in site.PAGES)
