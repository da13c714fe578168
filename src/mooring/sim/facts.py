"""The pods, claims, volumes, classes and nodes of a simulated world as they are in the store, seen write by write.

What invariants are judged by: the API's own objects, never what a component believes.
"""

from typing import NamedTuple, TypeVar

from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.sim.history import Written
from mooring.store.contract import Record
from mooring.volumes import affinity

V = TypeVar("V", bound=ApiObject)


class Subject(NamedTuple):
    """An object somebody is talking about."""

    kind: Kind[ApiObject]
    key: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


class Step(NamedTuple):
    """One write as views: absent before creation, absent after deletion."""

    before: ApiObject | None
    after: ApiObject | None


class Facts:
    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.nodes: dict[str, Node] = {}
        #: Nodes as they were last, also those that are gone: a machine does not stop with its Node object.
        self.machines: dict[str, Node] = {}
        #: Whatever was deleted or marked for deletion at any time.
        self.doomed: set[Subject] = set()

    def take(self, written: Written) -> Step:
        """Take a write in. Writes of other kinds change nothing here."""
        kind, key, change = written.kind, written.key, written.change
        step = Step(_view(kind, change.before), _view(kind, change.after))
        if step.after is None or step.after.deleting:
            self.doomed.add(Subject(kind, key))
        if kind is POD:
            _put(self.pods, key, step.after, Pod)
        elif kind is CLAIM:
            _put(self.claims, key, step.after, Claim)
        elif kind is VOLUME:
            _put(self.volumes, key, step.after, Volume)
        elif kind is STORAGE_CLASS:
            _put(self.classes, key, step.after, StorageClass)
        elif kind is NODE:
            _put(self.nodes, key, step.after, Node)
            self.machines |= self.nodes
        return step

    def claim_of(self, volume: Volume) -> Claim | None:
        """The claim a volume's claimRef means, uid included."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self.claims.get(f"{reference.namespace}/{reference.name}")
        return claim if claim is not None and claim.uid == reference.uid else None

    def volume_of(self, claim: Claim) -> Volume | None:
        """The volume of a fully bound claim, if both sides agree."""
        volume = self.volumes.get(claim.spec.volume_name) if claim.fully_bound else None
        reference = volume.spec.claim_ref if volume is not None else None
        return volume if reference is not None and reference.uid == claim.uid else None

    def claims_of(self, pod: Pod) -> list[Claim]:
        """Those that are there."""
        return [claim for key in pod.claim_keys if (claim := self.claims.get(key)) is not None]


def reaches(node: Node, volume: Volume) -> bool:
    return affinity.reaches(node.name, node.metadata.labels, volume)


def _view(kind: Kind[ApiObject], record: Record | None) -> ApiObject | None:
    return None if record is None else kind.decode(record.value)


def _put(shelf: dict[str, V], key: str, item: ApiObject | None, view: type[V]) -> None:
    if item is None:
        shelf.pop(key, None)
    elif isinstance(item, view):
        shelf[key] = item
