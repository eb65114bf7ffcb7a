"""Contact sheets of structures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.domains.artifacts import ColourBy
from steelyard.domains.bricks.render.annotations import with_legend
from steelyard.domains.bricks.render.isometric import picture
from steelyard.domains.bricks.stability import Stability
from steelyard.domains.bricks.structure import Structure
from steelyard.drawing import sheet
from steelyard.drawing.scene import Scene


@dataclass(frozen=True)
class Card:
    """One structure on a sheet. ``good`` selects a green or a red bar below it; ``None`` draws no bar."""

    structure: Structure
    caption: str = ""
    """One or more lines."""
    stability: Stability | None = None
    good: bool | None = None


def contact_sheet(cards: Sequence[Card], *, columns: int = 0, by: ColourBy = "part", title: str = "") -> Scene:
    """Arrange the cards row by row. ``by="stress"`` adds one legend for the sheet."""
    pictures = [picture(card.structure, by=by, stability=card.stability) for card in cards]
    drawn = [sheet.Card(scene, card.caption, card.good) for scene, card in zip(pictures, cards, strict=True)]
    page = sheet.contact_sheet(drawn, columns=columns)
    assessed = [card.stability for card in cards if card.stability is not None]
    page = with_legend(page, assessed[0], margin=sheet.GAP) if by == "stress" and assessed else page
    return sheet.with_title(page, title, margin=sheet.GAP) if title else page
