"""Every buffer and cache of the package is listed with its bound in bytes.

What grows with input is bounded by bytes, not only by count: a thousand entries of a megabyte are a gigabyte. What
grows with the cluster's objects is released with them, which `tests/simulation/guards/test_growth.py` checks.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from mooring.api import names, quantity
from mooring.api.kinds import CONFIG_MAP, POD
from mooring.api.node_selectors import NodeSelector, NodeSelectorTerm
from mooring.api.selectors import LabelSelector, Operator, Requirement
from mooring.client import event_series, exec_plugin, http, informer, recorder
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.cluster import local_client
from mooring.provisioner.rollback import groups, orphans
from mooring.scheduler import attempt_log
from mooring.scheduler.snapshot import pod_index, resources
from mooring.scheduler.snapshot.pod_terms import PodSelector
from mooring.server import objects
from mooring.server.http import bodies, listener
from mooring.server.kinds import pod_spec
from mooring.server.objects import SharedEvents
from mooring.store import state, watch_cache
from mooring.store.contract import Record, Revision, StoreChange, WatchOverflow
from mooring.store.watch_cache import WatchHub
from mooring.volumes import columns, scoring, topology
from mooring.volumes.holds import group_objects
from mooring.web import picture, pool_history, session
from support.builders import a_volume, pod_body, reachable_from

SOURCES: Final = Path(__file__).parents[2] / "src" / "mooring"
MIB: Final = 1 << 20
#: The longest label key there is.
WORD_BYTES: Final = 317
#: Of a name with its namespace.
KEY_BYTES: Final = 2 * 253 + 1
#: More than a cluster of the largest supported size has.
MANY_NODES: Final = 20_000
#: The largest object that a server takes.
OBJECT_BYTES: Final = bodies.LIMIT_BYTES

#: Buffers and caches by module: in how many lines it has one of the constructs below, and the bytes it may take.
BYTES: Final = {
    "api/names.py": (1, names.CACHE_SIZE * (names.MAX_LABEL + names.MAX_SUBDOMAIN + 1)),
    "api/quantity.py": (4, 4 * quantity.CACHE_SIZE * 1024),
    "api/schema/checks.py": (1, 2 * 256 * 1024),
    "api/times.py": (1, 8 * 1024),
    "client/event_series.py": (
        5,
        recorder.MAX_QUEUED_EVENTS * (recorder.MAX_MESSAGE_CHARS * 4 + 2 * KEY_BYTES)
        + 2 * event_series.CACHE_SIZE * event_series.SIMILAR * (recorder.MAX_MESSAGE_CHARS + 2 * KEY_BYTES),
    ),
    "client/exec_plugin.py": (1, 2 * exec_plugin.MAX_OUTPUT_BYTES),
    # Of one kind, of which a component watches twenty at most.
    "client/informer.py": (1, 20 * informer.MAX_RECENT_CHANGES * (KEY_BYTES + 32)),
    "cluster/local_client.py": (1, 8 * local_client.CACHED_VIEWS * local_client.MAX_CACHED_VIEW_BYTES),
    "provisioner/rollback/groups.py": (1, groups.MAX_GROUPS * group_objects.MAX_RECORD_BYTES),
    # Names of a claim, a node and a secret.
    "provisioner/rollback/orphans.py": (1, orphans.MAX_DELETED_CLAIMS * 3 * KEY_BYTES),
    # Labels of pods and of their namespaces; the sums go with the pods that carry the terms.
    "scheduler/snapshot/pod_index.py": (
        2,
        pod_index.MAX_CACHED_SUMS * OBJECT_BYTES + pod_index.MAX_CACHED_WORDS * WORD_BYTES,
    ),
    # A number for each node, and the names of resources that a pod requests.
    "scheduler/snapshot/resources.py": (1, resources.MAX_DERIVED * (MANY_NODES * 8 + 64 * WORD_BYTES)),
    "scheduler/preemption/evaluator.py": (1, 65536 * 128),
    "scheduler/extender/metrics.py": (1, 4096 * KEY_BYTES),
    "scheduler/extender/evaluator.py": (1, 4096 * 4 * KEY_BYTES),
    "server/auth/service_account_tokens.py": (1, 256 * 2 * 16 * 1024),
    "server/http/responses.py": (1, 256 * listener.MAX_LINE_BYTES),
    "server/http/requests.py": (1, 256 * listener.MAX_LINE_BYTES),
    "server/kinds/pod_spec.py": (1, pod_spec.CACHE_SIZE * pod_spec.MAX_CACHED_BYTES),
    "server/objects.py": (2, 256 * 128 * 1024 + objects.SHARED_EVENTS_LIMITS.bytes),
    # Of one kind, and of one watch.
    "store/state.py": (1, state.HISTORY.bytes),
    # What waits to be written came with requests, whose bodies are bounded together.
    "store/sqlite.py": (2, listener.BODIES_BYTES + 128 * 1024),
    "volumes/topology.py": (1, topology.AFFINITY_CACHE_SIZE * topology.MAX_CACHED_AFFINITY_WORDS * WORD_BYTES),
    "volumes/free_volumes.py": (1, 64 * OBJECT_BYTES),
    "volumes/in_tree.py": (1, 4096 * (topology.MAX_CACHED_AFFINITY_WORDS * WORD_BYTES + 1024)),
    "volumes/matching.py": (1, 8192 * 1024),
    # The text, and its terms, which take a few times as much.
    "volumes/scoring.py": (1, scoring.PREFERRED_AFFINITY_CACHE_SIZE * 8 * scoring.MAX_PREFERRED_AFFINITY_CHARACTERS),
    "web/pool_history.py": (1, pool_history.MAX_CHANGES * (KEY_BYTES + 256)),
    "web/session.py": (2, session.MAX_CACHED_BYTES + session.MAX_QUEUED_BYTES),
}
#: Those that hold entries of objects which are there, and let them go with the objects.
WITH_OBJECTS: Final = {"control/workqueue.py": 1, "controllers/node_health.py": 1, "hostpath/files.py": 1}
#: Variables of a function over one request or decision, whose input is bounded.
WITHIN_A_CALL: Final = {
    "api/managed_fields.py": 1,
    "api/patches/strategic.py": 1,
    "control/object_counts.py": 1,
    "volumes/columns.py": 1,
}
#: Besides, without one of the constructs.
OTHERS: Final = {
    "client/http.py": http.MAX_LINE_BYTES,
    "scheduler/attempt_log.py": attempt_log.MAX_BYTES,
    "server/http/listener.py": listener.BODIES_BYTES,
    "store/watch_cache.py": watch_cache.BACKLOG.bytes,
    # A bit for each node, of one class and shape.
    "volumes/columns.py": columns.MAX_CACHED_ANSWERS * MANY_NODES // 8,
    "volumes/topology.py": topology.MAX_CACHED_SELECTOR_WORDS * WORD_BYTES,
    "web/picture.py": picture.MAX_TIMELINE_ROWS * (picture.MAX_TEXT_LENGTH * 4 + 4 * KEY_BYTES),
}

#: What buffers and caches are made of.
CONSTRUCT: Final = re.compile(r"\b(?:deque|OrderedDict|lru_cache|asyncio\.Queue|bytearray)\b *[\[(]")


def test_every_buffer_is_on_the_list() -> None:
    """A new one needs a bound."""
    found = {
        str(path.relative_to(SOURCES)): sum(1 for line in _code(path) if CONSTRUCT.search(line))
        for path in sorted(SOURCES.rglob("*.py"))
    }
    listed = {module: count for module, (count, _) in BYTES.items()} | WITH_OBJECTS | WITHIN_A_CALL
    assert {module: count for module, count in found.items() if count} == listed
    assert all((SOURCES / module).exists() for module in OTHERS)


def _code(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.lstrip().startswith(("from ", "#"))]


def test_buffers_are_bounded() -> None:
    bounds = {module: most for module, (_, most) in BYTES.items()} | OTHERS
    assert {module: most // MIB for module, most in bounds.items() if most // MIB > 256} == {}


def record(revision: int, size: int) -> Record:
    value = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":""},"data":{"x":"%b"}}' % (
        b"x" * size
    )
    return Record(f"/core/configmaps/default/{revision}", value, Revision(revision), Revision(revision))


def created(revision: int, size: int) -> StoreChange:
    made = record(revision, size)
    return StoreChange(made.key, made.revision, None, made)


def fill_history(size: int) -> int:
    kept = state.History(Revision(0), state.Limits(changes=10_000, bytes=8 * MIB))
    for revision in range(1, 40):
        change = created(revision, size)
        kept.append(change, state.weight_of(change))
    return sum(state.weight_of(change) for kind in kept._collections.values() for change in kind._changes)


def fill_backlog(size: int) -> int:
    told = WatchHub(
        Revision(0), history=state.Limits(changes=1, bytes=1), backlog=state.Limits(changes=10_000, bytes=8 * MIB)
    )
    watch = told.subscribe("/core/configmaps/", Revision(0))
    for revision in range(1, 40):
        told.publish([created(revision, size)])
    try:
        return sum(state.weight_of(change) for change in watch.waiting())
    except WatchOverflow:
        return 0


def fill_shared_events(size: int) -> int:
    shared = SharedEvents(state.Limits(changes=2048, bytes=8 * MIB))
    for revision in range(1, 40):
        shared.of(CONFIG_MAP, created(revision, size))
    return shared.bytes


def fill_frames(size: int) -> int:
    frames = session.Feed("e", kept_bytes=8 * MIB)
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


def test_selector_caches_count_keys_and_values() -> None:
    """A hundred selectors of a thousand values each; 65,536 keys and values are cached."""
    nodes, pods = topology.TopologyIndex(), pod_index.PodIndex()
    for number in range(100):
        selector = long_selector(number, 1000)
        nodes.matching(selector)
        assert sum(kept.words for kept in nodes._answers) <= topology.MAX_CACHED_SELECTOR_WORDS
        labels = LabelSelector(selector.terms[0].expressions)
        pods.matching(PodSelector(labels, frozenset({"default"})))
        assert sum(one.words for kept in pods._watched for one in kept) <= pod_index.MAX_CACHED_WORDS
    assert len(nodes._answers) > 1
    assert len(pods._watched) > 1


def test_long_affinities_are_not_cached() -> None:
    before = topology._compiled.cache_info().currsize
    for count in (1, 100):
        values = [f"n{number}-{count}" for number in range(count)]
        found = topology.affinity_of(a_volume(affinity=reachable_from("zone", *values)))
        assert found is not None
        assert found.words == count + 1
    assert topology._compiled.cache_info().currsize == before + 1


@pytest.mark.parametrize("fill", [fill_history, fill_backlog, fill_shared_events, fill_frames, fill_events])
def test_large_input_does_not_fill_the_buffer(fill: Callable[[int], int]) -> None:
    """Forty entries of a megabyte each; eight megabytes are allowed."""
    assert fill(1 * MIB) <= 8 * MIB
