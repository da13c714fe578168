"""Replays a recording on virtual time: the same pods, claims, nodes and classes come and go, and the simulated control
plane decides. What happened then is compared with what happens in the replay.

Played back is what users, autoscalers and workload controllers did: creations and deletions, changed nodes and classes,
and pods that finished. Not played back is what Mooring's components do themselves: bindings, provisioned volumes,
capacity of drivers. With more load, every pod that came during the recording comes several times, with claims of its
own.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from mooring.api import kinds, well_known
from mooring.api.documents import Body
from mooring.api.errors import ApiError
from mooring.api.kinds import Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import StorageCapacity
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.explain.text import counted_noun
from mooring.store.contract import ABSENT
from mooring.store.watch_cache import MemoryStore
from mooring.whatif.inventory import Inventory, InventoryObject
from mooring.whatif.recording import ADDED, DELETED, RecordedChange, Recording
from mooring.whatif.results import SimulationResult, SimulationStruct

#: Kinds that are written as recorded.
_FACTS: Final[frozenset[Kind[ApiObject]]] = frozenset(
    {
        kinds.NAMESPACE,
        kinds.NODE,
        kinds.PRIORITY_CLASS,
        kinds.STORAGE_CLASS,
        kinds.CSI_DRIVER,
        kinds.CSI_NODE,
    }
)
#: Kinds whose status the simulation writes itself: they come and go as recorded.
_CREATED: Final[frozenset[Kind[ApiObject]]] = frozenset(
    {kinds.STORAGE_CAPACITY, kinds.DISRUPTION_BUDGET, kinds.POD_GROUP}
)
#: What binding leaves on a claim.
_BINDING: Final = (
    well_known.BIND_COMPLETED,
    well_known.BOUND_BY_CONTROLLER,
    well_known.SELECTED_NODE,
    well_known.STORAGE_PROVISIONER,
    well_known.STORAGE_PROVISIONER_BETA,
)
#: Between the name of a pod or claim and the number of its copy.
COPY: Final = "-load-"
MAX_LOAD_FACTOR: Final = 100


class SchedulingOutcome(SimulationStruct, frozen=True):
    """Where a pod was scheduled, and how long after it came; both empty if it was not."""

    node: str = ""
    seconds: float | None = None


_UNSCHEDULED: Final = SchedulingOutcome()


class ReplayedPod(SimulationStruct, frozen=True, omit_defaults=False):
    pod: str
    #: Seconds since the recording began.
    at: float
    #: None for pods that only the higher load brings.
    recorded: SchedulingOutcome | None
    replayed: SchedulingOutcome
    #: Why it is pending at the end of the replay.
    reason: str


class LoadSummary(SimulationStruct, frozen=True, omit_defaults=False):
    pods: int
    scheduled: int
    #: Seconds from creation to node, of those that were scheduled.
    median_seconds: float
    max_seconds: float


class ReplayResult(SimulationStruct, frozen=True, omit_defaults=False):
    verdict: str
    #: Whether no pod that was scheduled in the recording stays without a node.
    ok: bool
    #: Length of the recording.
    seconds: float
    recorded: LoadSummary
    replayed: LoadSummary
    pods: tuple[ReplayedPod, ...]
    notes: tuple[str, ...]
    result: SimulationResult


@dataclass
class _Arrival:
    """A pod that came, or waited from the beginning, by its uid."""

    key: str
    at: float
    is_copy: bool = False
    recorded: SchedulingOutcome = _UNSCHEDULED
    replayed: SchedulingOutcome = _UNSCHEDULED


@dataclass
class Replay:
    """The `TimedChanges` of a recording, with when each pod got its node."""

    recording: Recording
    load_factor: int = 1
    #: Names of schedulers that pods which come may ask for; all others are the default scheduler.
    schedulers: frozenset[str] = frozenset()
    _arrivals: dict[str, _Arrival] = field(default_factory=dict)
    _began: float = 0.0

    def inventory(self) -> Inventory:
        """The cluster at the beginning. Raises BadQuestion."""
        found = Inventory()
        for kind, body in self.recording.existing:
            found.keep(kind, copy.deepcopy(body))
        for change in self.recording.changes:
            # Refused before anything runs.
            _object(change.kind, change.body)
        return found

    @property
    def later(self) -> Sequence[StorageCapacity]:
        """As first recorded."""
        found: dict[str, StorageCapacity] = {}
        for change in self.recording.changes:
            if change.kind is kinds.STORAGE_CAPACITY and change.type == ADDED:
                view = _object(change.kind, change.body).view
                if isinstance(view, StorageCapacity) and not view.node_group:
                    found.setdefault(view.key, view)
        return [*found.values()]

    async def play(self, client: Client, store: MemoryStore, informers: Informers, clock: Clock) -> None:
        self._began = clock.monotonic()
        self._arrivals = recorded_arrivals(self.recording)
        informers.of(kinds.POD).on_change(lambda _, pod: self._on_pod(pod, clock.monotonic()))
        player = _Player(client, store, set(self._arrivals), self.schedulers)
        for change in self.recording.changes:
            await clock.sleep(self._began + change.at - clock.monotonic())
            for number in range(self.load_factor if player.is_load(change) else 1):
                played = _copied(change, number, player.own_claims) if number else change
                if number and played.kind is kinds.POD and played.type == ADDED:
                    metadata = played.body["metadata"]
                    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
                    self._arrivals[metadata["uid"]] = _Arrival(key, change.at, is_copy=True)
                await player.play(played)
        await clock.sleep(self._began + self.recording.seconds - clock.monotonic())

    def _on_pod(self, pod: Pod | None, now: float) -> None:
        arrival = None if pod is None else self._arrivals.get(pod.uid)
        if pod is not None and arrival is not None and pod.spec.node_name and not arrival.replayed.node:
            waited = max(now - self._began - arrival.at, 0.0)
            arrival.replayed = SchedulingOutcome(pod.spec.node_name, round(waited, 3))

    def result(self, found: SimulationResult) -> ReplayResult:
        reasons = {each.pod: each.reason for each in found.pending}
        pods = tuple(
            ReplayedPod(
                each.key,
                each.at,
                None if each.is_copy else each.recorded,
                each.replayed,
                "" if each.replayed.node else reasons.get(each.key, "it was deleted before it was scheduled"),
            )
            for each in sorted(self._arrivals.values(), key=lambda one: (one.at, one.key))
        )
        then = _summary([each.recorded for each in pods if each.recorded is not None])
        now = _summary([each.replayed for each in pods])
        worse = [each for each in pods if each.recorded is not None and each.recorded.node and not each.replayed.node]
        others = f"; {counted_noun(len(worse), 'pod')} that got a node then would not get one" if worse else ""
        scheduled = f"{then.scheduled} of {counted_noun(then.pods, 'pod')} got a node"
        verdict = f"In the recording {scheduled}, in the replay {now.scheduled} of {now.pods}{others}."
        return ReplayResult(verdict, not worse, self.recording.seconds, then, now, pods, self.recording.notes, found)


def recorded_arrivals(recording: Recording) -> dict[str, _Arrival]:
    """Pods that had no node at first, by uid, with when they got one."""
    found: dict[str, _Arrival] = {}
    for kind, body in recording.existing:
        if kind is kinds.POD and not _node(body) and not _is_finished(body):
            found[body["metadata"]["uid"]] = _Arrival(_key(body), 0.0)
    for change in recording.changes:
        if change.kind is not kinds.POD:
            continue
        uid, node = change.body["metadata"].get("uid", ""), _node(change.body)
        if change.type == ADDED and not _is_preset(change.body):
            found[uid] = _Arrival(_key(change.body), change.at)
        if (arrival := found.get(uid)) is not None and node and not arrival.recorded.node:
            arrival.recorded = SchedulingOutcome(node, round(change.at - arrival.at, 3))
    return found


class _Player:
    """Applies recorded changes to the simulated cluster."""

    def __init__(self, client: Client, store: MemoryStore, load: set[str], schedulers: frozenset[str]) -> None:
        self._schedulers = schedulers
        self._client = client
        self._store = store
        self._load = load
        #: Claims that came during the recording: copies of pods have copies of them.
        self.own_claims: set[str] = set()

    def is_load(self, change: RecordedChange) -> bool:
        """Whether more load means more of it: pods that came, and claims."""
        if change.kind is kinds.CLAIM:
            return _key(change.body) in self.own_claims or (change.type == ADDED and not _is_of_pod(change.body))
        return change.kind is kinds.POD and change.body["metadata"].get("uid") in self._load and change.at > 0

    async def play(self, change: RecordedChange) -> None:
        kind, body = change.kind, change.body
        if kind in _FACTS:
            await self._write(kind, None if change.type == DELETED else body, body)
        elif kind is kinds.POD:
            await self._play_pod(change)
        elif kind is kinds.CLAIM:
            if change.type == ADDED and not _is_of_pod(body):
                self.own_claims.add(_key(body))
                await self._write(kind, _unbound(body), body)
            elif change.type == DELETED and not _is_of_pod(body):
                await self._delete(kind, body)
        elif kind is kinds.VOLUME:
            if well_known.PROVISIONED_BY not in (body["metadata"].get("annotations") or {}):
                await self._play_volume(change)
        elif kind in _CREATED and change.type in (ADDED, DELETED):
            await self._write(kind, body if change.type == ADDED else None, body)

    async def _play_pod(self, change: RecordedChange) -> None:
        body = change.body
        if change.type == ADDED:
            await self._write(kinds.POD, body if _is_preset(body) else self._unscheduled(body), body)
        elif change.type == DELETED:
            await self._delete(kinds.POD, body)
        elif _is_finished(body):
            metadata = body["metadata"]
            finished = MergePatch({"metadata": {"uid": metadata["uid"]}, "status": {"phase": body["status"]["phase"]}})
            try:
                await self._client.patch(
                    kinds.POD, metadata["name"], finished, namespace=metadata["namespace"], subresource="status"
                )
            except ApiError:
                # It is not there in the replay, or another one has its name.
                return

    def _unscheduled(self, body: Body) -> Body:
        spec = {name: value for name, value in body["spec"].items() if name != "nodeName"}
        if spec.get("schedulerName") not in self._schedulers:
            spec["schedulerName"] = well_known.DEFAULT_SCHEDULER
        return body | {"spec": spec, "status": {"phase": "Pending"}}

    async def _play_volume(self, change: RecordedChange) -> None:
        body = change.body
        if change.type == ADDED:
            spec = dict(body["spec"])
            if (spec.get("claimRef") or {}).get("uid"):
                del spec["claimRef"]
            await self._write(kinds.VOLUME, body | {"spec": spec, "status": {"phase": "Available"}}, body)
        elif change.type == DELETED:
            await self._delete(kinds.VOLUME, body)

    async def _delete(self, kind: Kind[ApiObject], body: Body) -> None:
        metadata = body["metadata"]
        grace = 0 if kind is kinds.POD else None
        try:
            await self._client.delete(
                kind, metadata["name"], namespace=metadata.get("namespace", ""), grace_seconds=grace
            )
        except ApiError:
            # It is not there in the replay.
            return

    async def _write(self, kind: Kind[ApiObject], body: Body | None, named: Body) -> None:
        """Into the store itself, as recorded objects were accepted by a server before."""
        namespace = named["metadata"].get("namespace", "") if kind.namespaced else ""
        key = kind.store_key(namespace, named["metadata"]["name"])
        there = await self._store.get(key)
        if body is None:
            if there is not None:
                await self._store.write(key, None, expect=there.revision)
            return
        await self._store.write(key, _object(kind, body).stored, expect=ABSENT if there is None else there.revision)


def _object(kind: Kind[ApiObject], body: Body) -> InventoryObject:
    found = Inventory()
    found.keep(kind, copy.deepcopy(body))
    return found.only(kind)


def _copied(change: RecordedChange, number: int, own_claims: set[str]) -> RecordedChange:
    """The same for the copy of this number."""
    body = copy.deepcopy(change.body)
    metadata = body["metadata"]
    suffix = f"{COPY}{number}"
    metadata["name"] += suffix
    metadata["uid"] = f"{metadata.get('uid', '')}{suffix}"
    for volume in (body.get("spec") or {}).get("volumes") or ():
        source = volume.get("persistentVolumeClaim") or {}
        if f"{metadata.get('namespace', '')}/{source.get('claimName', '')}" in own_claims:
            source["claimName"] += suffix
    return change._replace(body=body)


def _summary(outcomes: Sequence[SchedulingOutcome]) -> LoadSummary:
    waits = [each.seconds for each in outcomes if each.seconds is not None]
    return LoadSummary(len(outcomes), len(waits), round(median(waits), 3) if waits else 0.0, max(waits, default=0.0))


def _key(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"


def _node(body: Body) -> str:
    return str((body.get("spec") or {}).get("nodeName") or "")


def _is_finished(body: Body) -> bool:
    return (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _is_preset(body: Body) -> bool:
    """Whether a pod was created with its node, rather than scheduled before it was seen."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return bool(_node(body)) and not any(each.get("type") == "PodScheduled" for each in conditions)


def _is_of_pod(body: Body) -> bool:
    """Whether a claim is of a generic ephemeral volume, which the simulated controller creates."""
    return any(each.get("kind") == "Pod" for each in body["metadata"].get("ownerReferences") or ())


def _unbound(body: Body) -> Body:
    metadata = dict(body["metadata"])
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    spec = dict(body["spec"])
    if well_known.BIND_COMPLETED in annotations:
        spec.pop("volumeName", None)
    metadata["annotations"] = {name: value for name, value in annotations.items() if name not in _BINDING}
    return body | {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def different_pods(found: ReplayResult) -> Iterator[ReplayedPod]:
    """Pods that were scheduled then and are not now, the other way round, or on another node."""
    for each in found.pods:
        if each.recorded is not None and each.recorded.node != each.replayed.node:
            yield each
