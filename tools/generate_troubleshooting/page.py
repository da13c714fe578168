"""The troubleshooting page, rendered from the table of messages."""

from collections.abc import Iterator
from typing import Final

from mooring.explain.messages import GROUPS
from mooring.explain.results import Message

_HEAD: Final = """# Troubleshooting by message text

Search this page for the text in `kubectl describe`, or run `mooring explain "TEXT"`: it accepts a whole event message
and names the sections for its parts. `mooring explain pod/NAME` shows the node, claim, volume or capacity object and
the value that cause it in your cluster ([explain.md](explain.md)).

The texts are those of Kubernetes 1.37 and of Mooring; texts of older releases are listed below them. `<names>` in a
text are placeholders.

This page is generated from `src/mooring/explain/messages/` with `python -m tools.generate_troubleshooting`; edit the
messages there.
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
    if message.older_texts:
        yield f"Earlier: {', '.join(f'`{text}`' for text in message.older_texts if text != message.text)}."
        yield ""
    yield f"Source: {message.source}."
    yield ""
    yield message.meaning
    yield ""
    yield f"**What to do:** {message.action}"
    yield ""
