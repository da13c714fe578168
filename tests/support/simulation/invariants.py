"""Invariants that hold after every write, whatever faults are injected. Pure; evaluated on stored objects only.

Each rule is a function of `Facts`, the objects in the store after the write, and of the write itself. Conditions at the
end of a run are in `convergence`.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from mooring.api import selectors, well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod, PodAffinityTerm
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.store.contract import Record
from mooring.volumes import topology
from support.simulation.history import Written

V = TypeVar("V", bound=ApiObject)


class Subject(NamedTuple):
    """Reference to an object by kind and key."""

    kind: Kind[ApiObject]
    key: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


class Step(NamedTuple):
    """One write as views: None before creation, None after deletion."""

    before: ApiObject | None
    after: ApiObject | None


class Facts:
    """Pods, claims, volumes, classes and nodes as stored, updated write by write."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.nodes: dict[str, Node] = {}
        #: Last state of all nodes, deleted ones included: a machine does not stop with its Node object.
        self.machines: dict[str, Node] = {}
        #: Objects that were ever deleted or marked for deletion.
        self.deleted: set[Subject] = set()
        #: Uids of all objects that exist and are not marked for deletion, whatever their kind.
        self.living: set[str] = set()
        #: Component or user of the last write.
        self.author = ""

    def observe(self, written: Written) -> Step:
        """Apply a write. Writes of other kinds change nothing."""
        kind, key, change = written.kind, written.key, written.change
        step = Step(_view(kind, change.before), _view(kind, change.after))
        self.author = written.author
        if step.after is None or step.after.deleting:
            self.deleted.add(Subject(kind, key))
            self.living -= {one.uid for one in step if one is not None}
        else:
            self.living.add(step.after.uid)
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
        """The pod's claims that exist."""
        return [claim for key in pod.claim_keys if (claim := self.claims.get(key)) is not None]


def reaches(node: Node, volume: Volume) -> bool:
    return topology.reaches(node.name, node.metadata.labels, volume)


def _view(kind: Kind[ApiObject], record: Record | None) -> ApiObject | None:
    return None if record is None else kind.decode(record.value)


def _put(items: dict[str, V], key: str, item: ApiObject | None, view: type[V]) -> None:
    if item is None:
        items.pop(key, None)
    elif isinstance(item, view):
        items[key] = item


class Violation(NamedTuple):
    """A rule that does not hold, and for which objects."""

    rule: str
    text: str
    objects: tuple[Subject, ...]


Rule = Callable[[Facts, Step], Iterator[Violation]]


def one_claim_per_volume(facts: Facts, step: Step) -> Iterator[Violation]:
    """No volume is bound to two claims."""
    claim = step.after
    if not isinstance(claim, Claim) or not claim.fully_bound:
        return
    for other in facts.claims.values():
        if other.uid != claim.uid and other.fully_bound and other.spec.volume_name == claim.spec.volume_name:
            text = f"claims {claim.key} and {other.key} are both bound to volume {claim.spec.volume_name}"
            yield Violation("one claim per volume", text, (_claim(claim), _claim(other), _volume(claim)))


def bound_for_good(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim that was fully bound keeps its volume."""
    before, claim = step
    if not isinstance(before, Claim) or not isinstance(claim, Claim) or not before.fully_bound:
        return
    if not claim.fully_bound or claim.spec.volume_name != before.spec.volume_name:
        now = claim.spec.volume_name or "nothing"
        text = f"claim {claim.key} was bound to volume {before.spec.volume_name} and now names {now}"
        yield Violation("bound for good", text, (_claim(claim), _volume(before)))


def completed_on_its_own_volume(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim is completed only once the volume belongs to it."""
    before, claim = step
    was = isinstance(before, Claim) and before.fully_bound
    if isinstance(claim, Claim) and claim.fully_bound and not was and facts.volume_of(claim) is None:
        text = f"claim {claim.key} was completed, but volume {claim.spec.volume_name} does not belong to it"
        yield Violation("completed on its own volume", text, (_claim(claim), _volume(claim)))


def volume_outlives_binding(facts: Facts, step: Step) -> Iterator[Violation]:
    """A volume is neither deleted nor bound to another claim while a claim is bound to it. While that claim is being
    deleted, the volume may be reserved for the next one of its name."""
    before, after = step
    if not isinstance(before, Volume):
        return
    claim = facts.claim_of(before)
    if claim is None or not claim.fully_bound or claim.spec.volume_name != before.name:
        return
    reference = after.spec.claim_ref if isinstance(after, Volume) else None
    if reference is not None and claim.deleting and not reference.uid and reference.name == claim.name:
        return
    if reference is None or reference.uid != claim.uid:
        what = "deleted" if after is None else "taken away"
        text = f"volume {before.name} was {what} while claim {claim.key} is bound to it"
        yield Violation("volume outlives binding", text, (_claim(claim), _volume(claim)))


def released_after_its_claim(facts: Facts, step: Step) -> Iterator[Violation]:
    """A volume is Released only after its claim was deleted: reclaiming may destroy the data."""
    before, volume = step
    was = isinstance(before, Volume) and before.status.phase == "Released"
    if not isinstance(volume, Volume) or volume.status.phase != "Released" or was:
        return
    claim = facts.claim_of(volume)
    if claim is not None and claim.spec.volume_name in ("", volume.name):
        text = f"volume {volume.name} was released while its claim {claim.key} is there"
        yield Violation("released after its claim", text, (Subject(VOLUME, volume.name), _claim(claim)))


def provisioned_on_selected_node(facts: Facts, step: Step) -> Iterator[Violation]:
    """A volume provisioned for a claim with a selected node is accessible from that node."""
    before, volume = step
    if (
        before is not None
        or not isinstance(volume, Volume)
        or well_known.PROVISIONED_BY not in volume.metadata.annotations
    ):
        return
    claim = facts.claim_of(volume)
    node = facts.machines.get(claim.selected_node or "") if claim is not None else None
    if claim is not None and node is not None and not reaches(node, volume):
        text = f"volume {volume.name} was provisioned for claim {claim.key} and is not accessible from {node.name}"
        yield Violation("provisioned on the selected node", text, (Subject(VOLUME, volume.name), _claim(claim)))


def one_node_per_pod(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod that has a node keeps it."""
    before, pod = step
    if isinstance(before, Pod) and isinstance(pod, Pod) and before.spec.node_name not in ("", pod.spec.node_name):
        text = f"pod {pod.key} was on {before.spec.node_name} and now is on {pod.spec.node_name or 'none'}"
        yield Violation("one node per pod", text, (Subject(POD, pod.key),))


def assigned_within_reach(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod gets its node only when its claims are bound to volumes accessible from the node.

    Not a pod that is created with a node, which bypasses the scheduler. Objects that a user deleted are ignored: the
    scheduler's check and write are not atomic.
    """
    before, pod = step
    if isinstance(before, Pod) and isinstance(pod, Pod) and pod.spec.node_name and not before.spec.node_name:
        yield from _within_reach(facts, pod, "assigned within reach", "was assigned to", ignore_deleted=True)


def running_within_reach(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod begins to run only where its volumes are."""
    before, pod = step
    ran = isinstance(before, Pod) and before.status.phase == "Running"
    if isinstance(pod, Pod) and pod.status.phase == "Running" and not ran:
        yield from _within_reach(facts, pod, "running within reach", "runs on", ignore_deleted=False)


def apart(facts: Facts, step: Step) -> Iterator[Violation]:
    """Pods that must not share a node do not. Holds as long as no two schedulers place such pods at once."""
    before, pod = step
    was = before.spec.node_name if isinstance(before, Pod) else ""
    if not isinstance(pod, Pod) or not pod.spec.node_name or was:
        return
    for other in facts.pods.values():
        near = other.spec.node_name == pod.spec.node_name and other.uid != pod.uid and not other.finished
        if near and (repels(pod, other) or repels(other, pod)):
            text = f"pods {pod.key} and {other.key} must be apart and are both on {pod.spec.node_name}"
            yield Violation("apart", text, (Subject(POD, pod.key), Subject(POD, other.key)))


def collected_without_owner(facts: Facts, step: Step) -> Iterator[Violation]:
    """The garbage collector deletes no object of an owner that is there: its cache may be behind."""
    before, after = step
    if facts.author != "garbage-collector" or before is None or before.deleting:
        return
    owners = [owner for owner in before.metadata.owner_references if owner.uid in facts.living]
    if owners and (after is None or after.deleting):
        text = f"{type(before).__name__} {before.key} was deleted although {owners[0].kind} {owners[0].name} is there"
        yield Violation("collected without owner", text, (Subject(POD, before.key),))


#: Hold for any number of instances of any component.
ALWAYS: Final[tuple[Rule, ...]] = (
    one_claim_per_volume,
    bound_for_good,
    completed_on_its_own_volume,
    volume_outlives_binding,
    released_after_its_claim,
    provisioned_on_selected_node,
    one_node_per_pod,
    assigned_within_reach,
    running_within_reach,
    collected_without_owner,
)


class Invariants:
    """Checks every write and maintains the facts."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self.facts = Facts()

    def check(self, written: Written) -> Violation | None:
        """The first violation of the write."""
        step = self.facts.observe(written)
        return next((violation for rule in self._rules for violation in rule(self.facts, step)), None)


def repels(pod: Pod, other: Pod) -> bool:
    """Whether the pod's required anti-affinity keeps the other off its node."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    return any(term_matches(term, pod, other) for term in terms)


def term_matches(term: PodAffinityTerm, pod: Pod, other: Pod) -> bool:
    """Whether a term of the pod's is about the other; of topologies only the node counts."""
    if term.topology_key != well_known.HOSTNAME or term.label_selector is None or other.namespace != pod.namespace:
        return False
    view = term.label_selector
    return selectors.label_selector_from_view(view).matches(other.metadata.labels)


def _within_reach(facts: Facts, pod: Pod, rule: str, what: str, *, ignore_deleted: bool) -> Iterator[Violation]:
    node = facts.machines.get(pod.spec.node_name)
    for key in pod.claim_keys:
        claim = facts.claims.get(key)
        volume = facts.volume_of(claim) if claim is not None else None
        objects = (Subject(POD, pod.key), Subject(CLAIM, key), *((_volume(claim),) if claim is not None else ()))
        if volume is None or node is None:
            if not (ignore_deleted and any(one in facts.deleted for one in objects[1:])):
                text = f"pod {pod.key} {what} {pod.spec.node_name} although claim {key} has no volume there"
                yield Violation(rule, text, objects)
        elif not reaches(node, volume):
            text = f"pod {pod.key} {what} {node.name}, which does not reach volume {volume.name}"
            yield Violation(rule, text, objects)


def _claim(claim: Claim) -> Subject:
    return Subject(CLAIM, claim.key)


def _volume(claim: Claim) -> Subject:
    return Subject(VOLUME, claim.spec.volume_name)
