"""The page of messages is the table of messages."""

import re
from pathlib import Path

from mooring.explain.messages.lookup import MESSAGES, PAGE
from mooring.explain.messages.page import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / f"{PAGE}.md").read_text() == page(), "run python -m tools.generate_troubleshooting"


def test_every_message_has_the_heading_it_is_linked_by() -> None:
    headings = re.findall(r"^### `(.+)`$", (ROOT / "docs" / f"{PAGE}.md").read_text(), re.MULTILINE)
    assert headings == [message.text for message in MESSAGES]
