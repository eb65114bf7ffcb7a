"""Links of the README and of the pages lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"))


def test_every_place_that_a_page_links_to_is_there() -> None:
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
    """What GitHub makes of its headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(page: Path) -> str:
    """Without its blocks of code, in which a comment looks like a heading."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
