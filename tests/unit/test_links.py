"""Links and file names in the README and the documentation point to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOMAINS = sorted((ROOT / "src" / "steelyard" / "domains").glob("*/"))
"""Folders that the pages of the shipped domains give paths in."""
OUTSIDE = ("models/", "runs/", "warmstart/")
"""Start of the paths of a user's files and of files in a run folder."""
PAGES = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"))


def test_every_link_target_exists() -> None:
    links = [
        (page, *link.partition("#")[::2])
        for page in PAGES
        for link in re.findall(r"\]\(((?!http)[^)\s]+)\)", prose(page))
    ]
    assert links
    assert any(anchor for *_, anchor in links)
    missing = [
        (page.name, name, anchor)
        for page, name, anchor in links
        if not (target := page.parent / name if name else page).exists() or (anchor and anchor not in anchors(target))
    ]
    assert not missing


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(page: Path) -> str:
    """Remove code blocks, in which a comment looks like a heading."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_every_file_in_backticks_exists() -> None:
    named = [(page.name, path) for page in PAGES for path in re.findall(r"`([\w./-]+/[\w.-]+\.\w+)`", prose(page))]
    assert named
    missing = [(page, path) for page, path in named if not path.startswith(OUTSIDE) and not in_repository(path)]
    assert not missing
    assert not in_repository("docs/no-such-page.md")


def in_repository(path: str) -> bool:
    source = ROOT / "src"
    return any((folder / path).exists() for folder in (ROOT, ROOT / "docs", source, source / "steelyard", *DOMAINS))
