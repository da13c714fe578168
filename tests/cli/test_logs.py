"""What goes into the log, and what never does."""

import json
from typing import Any

from mooring.cli.logs import PROCESSORS


def rendered(event: dict[str, Any]) -> str:
    line: Any = event
    for process in PROCESSORS:
        line = process(None, "error", line)
    assert isinstance(line, str)
    return line


def test_a_traceback_shows_where_and_not_what_was_held_there() -> None:
    def handle(token: str) -> None:
        raise RuntimeError("something broke")

    try:
        handle("s3cret")
    except RuntimeError as error:
        line = rendered({"event": "unexpected error", "exc_info": error})
    told = json.loads(line)
    assert told["level"] == "error"
    assert told["exception"][0]["exc_value"] == "something broke"
    assert told["exception"][0]["frames"][-1]["name"] == "handle"
    assert "s3cret" not in line
