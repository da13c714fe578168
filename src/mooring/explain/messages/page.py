"""The table of messages as a page of the documentation."""

from collections.abc import Iterator
from typing import Final

from mooring.explain.messages.contract import Message
from mooring.explain.messages.lookup import GROUPS

_HEAD: Final = """# Troubleshooting by message text

Look for the text you see in `kubectl describe`, or let it be found: `mooring explain "TEXT"` takes a whole event and
names the sections for all it consists of. `mooring explain pod/NAME` then tells which node, which claim, which volume
or capacity object and which figure is behind it in your cluster ([explain.md](explain.md)).

Texts are those of Kubernetes 1.36 and of Mooring; what older releases say for the same thing stands below them.
`<names>` in a text stand for what differs from case to case.

This page is made from the table in `src/mooring/explain/messages/` with `python -m tools.generate_troubleshooting`;
change it there.
"""


def page() -> str:
    parts = [_HEAD]
    for heading, rows in GROUPS:
        parts.append(f"## {heading}\n")
        parts += ("\n".join(_section(message)) for message in rows)
    return "\n".join(parts)


def _section(message: Message) -> Iterator[str]:
    yield f"### `{message.text}`"
    yield ""
    if message.older:
        yield f"Earlier: {', '.join(f'`{text}`' for text in message.older if text != message.text)}."
        yield ""
    yield f"Said by: {message.said_by}."
    yield ""
    yield message.means
    yield ""
    yield f"**What to do:** {message.now}"
    yield ""
