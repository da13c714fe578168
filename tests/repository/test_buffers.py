"""Every buffer and cache of the package, and what bounds it in bytes: one list, and no buffer beside it.

What grows with input is bounded by bytes, not only by count: a thousand entries of a megabyte are a gigabyte. What
grows with the cluster's objects goes with them, which `tests/sim/test_growth.py` watches over.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from builders import a_volume, pod_body, reachable_from
from mooring.api import object_names, quantity
from mooring.api.kinds import CONFIG_MAP, POD
from mooring.api.label_selector import LabelSelector, Operator, Requirement
from mooring.api.node_selector import NodeSelector, NodeSelectorTerm
from mooring.client import event_series, exec_process, recorder, watch_lines
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.provisioner import sweeping
from mooring.scheduler import attempt_log, pod_index
from mooring.scheduler.affinity import PodSelector
from mooring.server import shared_events
from mooring.server.http import bodies, connections, listening
from mooring.server.shared_events import SharedEvents
from mooring.server.validation import sound_specs
from mooring.store import fanout, history
from mooring.store.contract import Change, Overrun, Record, Revision
from mooring.store.fanout import Fanout
from mooring.volumes import affinity, topology
from mooring.web import feed, timeline

SOURCES: Final = Path(__file__).parents[2] / "src" / "mooring"
MIB: Final = 1 << 20
#: The longest label key there is.
WORD_BYTES: Final = 317
#: Of a name with its namespace.
KEY_BYTES: Final = 2 * 253 + 1
#: The largest object that a server takes.
OBJECT_BYTES: Final = bodies.LIMIT_BYTES

#: Buffers and caches by module: in how many lines it has one of the constructs below, and the bytes it may take.
BYTES: Final = {
    "api/object_names.py": (1, object_names.REMEMBERED * (object_names.MAX_LABEL + object_names.MAX_SUBDOMAIN + 1)),
    "api/quantity.py": (4, 4 * quantity.REMEMBERED * 1024),
    "api/timestamps.py": (1, 8 * 1024),
    "client/event_queue.py": (4, recorder.QUEUED * (recorder.LONGEST_MESSAGE * 4 + 2 * KEY_BYTES)),
    "client/event_series.py": (
        1,
        2 * event_series.REMEMBERED * event_series.SIMILAR * (recorder.LONGEST_MESSAGE + 2 * KEY_BYTES),
    ),
    "client/exec_process.py": (1, 2 * exec_process.LONGEST_OUTPUT),
    # Names, and the parameters of a class, which the API server bounds.
    "provisioner/sweeping.py": (1, sweeping.MAX_ENDED * 256 * 1024),
    "scheduler/clearing.py": (1, 65536 * 128),
    "scheduler/extender/contact.py": (1, 4096 * KEY_BYTES),
    "scheduler/extender/given_back.py": (1, 4096 * 4 * KEY_BYTES),
    "scheduler/pod_index.py": (1, pod_index.REMEMBERED_WORDS * WORD_BYTES),
    "server/authentication/service_account_tokens.py": (1, 256 * 2 * 16 * 1024),
    "server/http/negotiation.py": (1, 256 * listening.MAX_LINE_BYTES),
    "server/http/options.py": (1, 256 * listening.MAX_LINE_BYTES),
    "server/validation/sound_specs.py": (1, sound_specs.KEPT * sound_specs.MAX_BYTES),
    "server/objects.py": (1, 256 * 128 * 1024),
    "server/shared_events.py": (1, shared_events.KEPT.bytes),
    # Of one kind, and of one watch.
    "store/history.py": (1, history.HISTORY.bytes),
    # What waits to be written came with requests, whose bodies are bounded together.
    "store/sqlite.py": (1, connections.BODIES_BYTES),
    "store/sqlite_file.py": (1, 128 * 1024),
    "volumes/affinity.py": (1, affinity.REMEMBERED * affinity.REMEMBERED_WORDS * WORD_BYTES),
    "volumes/free_volumes.py": (1, 64 * OBJECT_BYTES),
    "volumes/in_tree.py": (1, 4096 * (affinity.REMEMBERED_WORDS * WORD_BYTES + 1024)),
    "volumes/shape.py": (1, 8192 * 1024),
    "web/feed.py": (2, feed.KEPT_BYTES + feed.WAITING_BYTES),
}
#: Those that hold entries of objects which are there, and let them go with the objects.
WITH_OBJECTS: Final = {"control/queue.py": 1, "workloads/node_health.py": 1}
#: Variables of a function over one request or decision, whose input is bounded.
WITHIN_A_CALL: Final = {
    "api/ownership/merge.py": 1,
    "api/patches/strategic.py": 1,
    "control/remembered.py": 1,
    "volumes/assignment.py": 1,
}
#: Besides, without one of the constructs.
OTHERS: Final = {
    "client/watch_lines.py": watch_lines.LONGEST_LINE,
    "scheduler/attempt_log.py": attempt_log.BYTES,
    "server/http/connections.py": connections.BODIES_BYTES,
    "store/fanout.py": fanout.BACKLOG.bytes,
    "volumes/topology.py": topology.REMEMBERED_WORDS * WORD_BYTES,
    "web/timeline.py": timeline.REMEMBERED * (timeline.LONGEST_TEXT * 4 + 4 * KEY_BYTES),
}

#: What buffers and caches are made of.
CONSTRUCT: Final = re.compile(r"\b(?:deque|OrderedDict|lru_cache|asyncio\.Queue|bytearray)\b *[\[(]")


def test_every_buffer_is_on_the_list() -> None:
    """One that is new has to say what bounds it."""
    found = {
        str(path.relative_to(SOURCES)): sum(1 for line in _code(path) if CONSTRUCT.search(line))
        for path in sorted(SOURCES.rglob("*.py"))
        if not path.is_relative_to(SOURCES / "sim")
    }
    listed = {module: count for module, (count, _) in BYTES.items()} | WITH_OBJECTS | WITHIN_A_CALL
    assert {module: count for module, count in found.items() if count} == listed
    assert all((SOURCES / module).exists() for module in OTHERS)


def _code(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.lstrip().startswith(("from ", "#"))]


def test_no_buffer_may_take_more_than_a_server_has() -> None:
    bounds = {module: most for module, (_, most) in BYTES.items()} | OTHERS
    assert {module: most // MIB for module, most in bounds.items() if most > 256 * MIB} == {}


def record(revision: int, size: int) -> Record:
    value = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":""},"data":{"x":"%b"}}' % (
        b"x" * size
    )
    return Record(f"/core/configmaps/default/{revision}", value, Revision(revision), Revision(revision))


def created(revision: int, size: int) -> Change:
    made = record(revision, size)
    return Change(made.key, made.revision, None, made)


def fill_history(size: int) -> int:
    kept = history.History(Revision(0), history.Limits(changes=10_000, bytes=8 * MIB))
    for revision in range(1, 40):
        change = created(revision, size)
        kept.append(change, history.weight_of(change))
    return sum(history.weight_of(change) for change in kept.after(Revision(39 - 7), ""))


def fill_backlog(size: int) -> int:
    told = Fanout(
        Revision(0), history=history.Limits(changes=1, bytes=1), backlog=history.Limits(changes=10_000, bytes=8 * MIB)
    )
    watch = told.subscribe("/core/configmaps/", Revision(0))
    for revision in range(1, 40):
        told.publish([created(revision, size)])
    try:
        return sum(history.weight_of(change) for change in watch.waiting())
    except Overrun:
        return 0


def fill_shared_events(size: int) -> int:
    shared = SharedEvents(history.Limits(changes=2048, bytes=8 * MIB))
    for revision in range(1, 40):
        shared.of(CONFIG_MAP, created(revision, size))
    return shared.bytes


def fill_frames(size: int) -> int:
    frames = feed.Feed("e", kept_bytes=8 * MIB)
    for _ in range(40):
        frames.publish(b"x" * size)
    return sum(len(frame) for frame in frames._frames)


def fill_events(size: int) -> int:
    told = EventRecorder(None, SystemClock(), "test", random.Random(1))  # type: ignore[arg-type]
    pod = POD.decode(msgspec.json.encode(pod_body(name="p")))
    for number in range(40):
        told.record(pod, POD, "Warning", f"Failed{number}", "x" * size)
    return sum(len(happening.message) for happening in told._queue._waiting.values())


def long_selector(number: int, words: int) -> NodeSelector:
    one = Requirement.checked("zone", Operator.IN, [f"{number}-{word}" for word in range(words)])
    return NodeSelector((NodeSelectorTerm((one,)),))


def test_caches_of_selectors_count_their_words() -> None:
    """A hundred selectors of a thousand values each, where 65,536 keys and values are kept."""
    nodes, pods = topology.TopologyIndex(), pod_index.PodIndex()
    for number in range(100):
        selector = long_selector(number, 1000)
        nodes.matching(selector)
        assert sum(kept.words for kept in nodes._answers) <= topology.REMEMBERED_WORDS
        labels = LabelSelector(selector.terms[0].expressions)
        pods.matching(PodSelector(labels, frozenset({"default"})))
        assert sum(one.words for kept in pods._watched for one in kept) <= pod_index.REMEMBERED_WORDS
    assert len(nodes._answers) > 1
    assert len(pods._watched) > 1


def test_long_affinities_are_compiled_and_not_remembered() -> None:
    before = affinity._compiled.cache_info().currsize
    for count in (1, 100):
        values = [f"n{number}-{count}" for number in range(count)]
        found = affinity.affinity(a_volume(affinity=reachable_from("zone", *values)))
        assert found is not None
        assert found.words == count + 1
    assert affinity._compiled.cache_info().currsize == before + 1


@pytest.mark.parametrize("fill", [fill_history, fill_backlog, fill_shared_events, fill_frames, fill_events])
def test_heavy_input_does_not_fill_it(fill: Callable[[int], int]) -> None:
    """Forty entries of a megabyte each, where eight megabytes are allowed."""
    assert fill(1 * MIB) <= 8 * MIB
