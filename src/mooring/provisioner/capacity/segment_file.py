"""Files of the publisher: segments that CSINodes do not describe, such as pools behind several nodes, and templates.

The segment file is a YAML or JSON list of label maps, one per segment; `{}` is the whole cluster. The template file is
described in `templates`. Both are read again while the publisher runs, so that a mounted ConfigMap can change them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.documents import MalformedYaml, single_yaml_document
from mooring.clock import Clock
from mooring.provisioner.capacity.segments import Segment
from mooring.provisioner.capacity.templates import BadCapacityFile, TemplateCapacities, parse_templates
from mooring.provisioner.provision.topology import term

log: FilteringBoundLogger = structlog.get_logger(__name__)

T = TypeVar("T")

#: Between two reads. A kubelet takes up to a minute to update a mounted ConfigMap.
READ_INTERVAL_SECONDS: Final = 5.0


def parse_segments(text: str) -> frozenset[Segment]:
    """Raises BadCapacityFile."""
    try:
        listed = msgspec.convert(single_yaml_document(text.encode()), list[dict[str, str]])
    except (MalformedYaml, msgspec.ValidationError) as error:
        raise BadCapacityFile(f"not a list of maps from label to value: {error}") from error
    return frozenset(term(labels) for labels in listed)


def read_segments(path: Path) -> frozenset[Segment]:
    """Raises BadCapacityFile."""
    return _read(path, parse_segments)


def read_templates(path: Path) -> TemplateCapacities:
    """Raises BadCapacityFile."""
    return _read(path, parse_templates)


def _read(path: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(path.read_text())
    except (OSError, UnicodeDecodeError, BadCapacityFile) as error:
        raise BadCapacityFile(f"{path}: {error}") from error


class WatchedFile(Generic[T]):
    """`watch` reads the file again; while it cannot be used, the content stays as it was."""

    def __init__(self, path: Path, read: Callable[[Path], T], *, problem_event: str) -> None:
        """Raises BadCapacityFile."""
        self._path = path
        self._read = read
        self._event = problem_event
        self.content = read(path)
        self._listeners: list[Callable[[], None]] = []
        self._problem = ""

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def watch(self, clock: Clock) -> None:
        """Read the file every READ_INTERVAL_SECONDS, until cancelled."""
        while True:
            await clock.sleep(READ_INTERVAL_SECONDS)
            self.read()

    def read(self) -> None:
        problem = ""
        try:
            content = self._read(self._path)
        except BadCapacityFile as error:
            problem, content = str(error), self.content
            if problem != self._problem:
                log.warning(self._event, error=problem)
        self._problem = problem
        if content != self.content:
            self.content = content
            for listener in self._listeners:
                listener()


class FileSegments(WatchedFile[frozenset[Segment]]):
    """A SegmentSource."""

    def __init__(self, path: Path) -> None:
        """Raises BadCapacityFile."""
        super().__init__(path, read_segments, problem_event="segment file not usable; segments unchanged")

    def segments(self) -> frozenset[Segment]:
        return self.content

    async def wait_synced(self) -> None:
        """The file was read at the start."""


def watched_templates(path: Path) -> WatchedFile[TemplateCapacities]:
    """Raises BadCapacityFile."""
    return WatchedFile(path, read_templates, problem_event="template file not usable; templates unchanged")
