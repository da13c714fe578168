"""Documentation that cannot rot: what the code lists, the pages must list too."""

import re
from pathlib import Path

from mooring.api.kinds import KINDS

ROOT = Path(__file__).parents[2]


def headings(page: str) -> set[str]:
    return set(re.findall(r"^### (\w+)$", (ROOT / page).read_text(), re.MULTILINE))


def test_every_kind_has_a_section() -> None:
    assert headings("docs/kinds.md") == {kind.kind for kind in KINDS}


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {link}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
