"""What a pod's annotations say it does: when it starts, is ready, ends, and how.

Pure. Nothing is really run, so a pod says itself what would have happened:

    mooring.dev/start-after: 5s     ContainerCreating for so long, once its volumes are there
    mooring.dev/ready-after: 10s    not ready for so long after each start
    mooring.dev/run-for: 1m         its containers end after so long, each time
    mooring.dev/exit-code: "1"      with this code; 0 where nothing is said
    mooring.dev/stop-after: 20s     how long it takes to stop when deleted, at most its grace period

A pod that says nothing starts at once, is ready at once, runs for ever and stops at once.
"""

from typing import Final, NamedTuple

from mooring.api.go_durations import DurationError, seconds
from mooring.api.views.pod import Pod

START_AFTER: Final = "mooring.dev/start-after"
READY_AFTER: Final = "mooring.dev/ready-after"
RUN_FOR: Final = "mooring.dev/run-for"
EXIT_CODE: Final = "mooring.dev/exit-code"
STOP_AFTER: Final = "mooring.dev/stop-after"

#: What a process can end with.
_LARGEST_CODE: Final = 255


class BadScript(ValueError):
    """An annotation that cannot be followed; the text names it."""


class Script(NamedTuple):
    """Seconds; `run_for` is None for a pod that runs until somebody stops it."""

    start_after: float = 0.0
    ready_after: float = 0.0
    run_for: float | None = None
    exit_code: int = 0
    stop_after: float = 0.0


def script(pod: Pod) -> Script:
    """Raises BadScript."""
    said = pod.metadata.annotations
    if not any(key in said for key in (START_AFTER, READY_AFTER, RUN_FOR, EXIT_CODE, STOP_AFTER)):
        return UNSAID
    return Script(
        _duration(pod, START_AFTER),
        _duration(pod, READY_AFTER),
        _duration(pod, RUN_FOR) if RUN_FOR in said else None,
        _code(said.get(EXIT_CODE, "0")),
        _duration(pod, STOP_AFTER),
    )


UNSAID: Final = Script()


def _duration(pod: Pod, key: str) -> float:
    try:
        return seconds(pod.metadata.annotations.get(key, "0"))
    except DurationError as error:
        raise BadScript(f"annotation {key}: {error}") from error


def _code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST_CODE):
        raise BadScript(f"annotation {EXIT_CODE}: {text!r} is not an exit code: write 0 to {_LARGEST_CODE}")
    return int(text)
