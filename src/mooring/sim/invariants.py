"""What must hold after every single write, whatever goes wrong: the rules that protect data and placement.

Each rule is a function of the facts after the write and the write itself. `settled` has the rules for the end of a
run, when everything had its time.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mooring.api import keys, label_selector
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod, PodAffinityTerm
from mooring.api.views.volume import Volume
from mooring.sim.facts import Facts, Step, Subject, reaches
from mooring.sim.history import Written


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
    """A volume is neither deleted nor given to anybody else while a claim is bound to it."""
    before, after = step
    if not isinstance(before, Volume):
        return
    claim = facts.claim_of(before)
    if claim is None or not claim.fully_bound or claim.spec.volume_name != before.name:
        return
    reference = after.spec.claim_ref if isinstance(after, Volume) else None
    if reference is None or reference.uid != claim.uid:
        what = "deleted" if after is None else "taken away"
        text = f"volume {before.name} was {what} while claim {claim.key} is bound to it"
        yield Violation("volume outlives binding", text, (_claim(claim), _volume(claim)))


def released_after_its_claim(facts: Facts, step: Step) -> Iterator[Violation]:
    """A volume is given up for reclaiming only once its claim is gone: what follows may be the end of the data."""
    before, volume = step
    was = isinstance(before, Volume) and before.status.phase == "Released"
    if not isinstance(volume, Volume) or volume.status.phase != "Released" or was:
        return
    claim = facts.claim_of(volume)
    if claim is not None and claim.spec.volume_name in ("", volume.name):
        text = f"volume {volume.name} was released while its claim {claim.key} is there"
        yield Violation("released after its claim", text, (Subject(VOLUME, volume.name), _claim(claim)))


def made_where_asked(facts: Facts, step: Step) -> Iterator[Violation]:
    """A volume that is made for a claim with a selected node is one that this node reaches."""
    before, volume = step
    if before is not None or not isinstance(volume, Volume) or keys.PROVISIONED_BY not in volume.metadata.annotations:
        return
    claim = facts.claim_of(volume)
    node = facts.machines.get(claim.selected_node or "") if claim is not None else None
    if claim is not None and node is not None and not reaches(node, volume):
        text = f"volume {volume.name} was made for claim {claim.key} where {node.name} does not reach it"
        yield Violation("made where asked", text, (Subject(VOLUME, volume.name), _claim(claim)))


def one_node_per_pod(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod that has a node keeps it."""
    before, pod = step
    if isinstance(before, Pod) and isinstance(pod, Pod) and before.spec.node_name not in ("", pod.spec.node_name):
        text = f"pod {pod.key} was on {before.spec.node_name} and now is on {pod.spec.node_name or 'none'}"
        yield Violation("one node per pod", text, (Subject(POD, pod.key),))


def assigned_within_reach(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod gets its node only when its claims are bound to volumes that node reaches.

    What a user deleted a moment ago is not held against anybody: no check and write together are atomic.
    """
    before, pod = step
    was = before.spec.node_name if isinstance(before, Pod) else ""
    if isinstance(pod, Pod) and pod.spec.node_name and not was:
        yield from _within_reach(facts, pod, "assigned within reach", "was assigned to", spare_doomed=True)


def running_within_reach(facts: Facts, step: Step) -> Iterator[Violation]:
    """A pod begins to run only where its volumes are."""
    before, pod = step
    ran = isinstance(before, Pod) and before.status.phase == "Running"
    if isinstance(pod, Pod) and pod.status.phase == "Running" and not ran:
        yield from _within_reach(facts, pod, "running within reach", "runs on", spare_doomed=False)


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


#: Hold whoever runs, and however many of them.
ALWAYS: Final[tuple[Rule, ...]] = (
    one_claim_per_volume,
    bound_for_good,
    completed_on_its_own_volume,
    volume_outlives_binding,
    released_after_its_claim,
    made_where_asked,
    one_node_per_pod,
    assigned_within_reach,
    running_within_reach,
)


class Invariants:
    """Judges every write it is shown, and keeps the facts."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self.facts = Facts()

    def judge(self, written: Written) -> Violation | None:
        """The first rule the write broke."""
        step = self.facts.take(written)
        return next((violation for rule in self._rules for violation in rule(self.facts, step)), None)


def repels(pod: Pod, other: Pod) -> bool:
    """Whether the pod's required anti-affinity keeps the other off its node."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else ()
    return any(means(term, pod, other) for term in terms)


def means(term: PodAffinityTerm, pod: Pod, other: Pod) -> bool:
    """Whether a term of the pod's is about the other; of topologies only the node counts."""
    if term.topology_key != keys.HOSTNAME or term.label_selector is None or other.namespace != pod.namespace:
        return False
    view = term.label_selector
    return label_selector.from_view(view.match_labels, view.match_expressions).matches(other.metadata.labels)


def _within_reach(facts: Facts, pod: Pod, rule: str, what: str, *, spare_doomed: bool) -> Iterator[Violation]:
    node = facts.machines.get(pod.spec.node_name)
    for key in pod.claim_keys:
        claim = facts.claims.get(key)
        volume = facts.volume_of(claim) if claim is not None else None
        objects = (Subject(POD, pod.key), Subject(CLAIM, key), *((_volume(claim),) if claim is not None else ()))
        if volume is None or node is None:
            if not (spare_doomed and any(one in facts.doomed for one in objects[1:])):
                text = f"pod {pod.key} {what} {pod.spec.node_name} although claim {key} has no volume there"
                yield Violation(rule, text, objects)
        elif not reaches(node, volume):
            text = f"pod {pod.key} {what} {node.name}, which does not reach volume {volume.name}"
            yield Violation(rule, text, objects)


def _claim(claim: Claim) -> Subject:
    return Subject(CLAIM, claim.key)


def _volume(claim: Claim) -> Subject:
    return Subject(VOLUME, claim.spec.volume_name)
