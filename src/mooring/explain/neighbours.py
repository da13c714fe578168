"""Other pods that keep a pod off a node: who has its port, disk or claim, and whom it must not or must be near.

Below `figures`. Only pods that were listed are named, so nobody learns of pods they may not see.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, TypeAlias

from mooring.api.kinds import POD
from mooring.api.label_selector import SelectorError
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.explain.cluster_objects import ClusterObjects
from mooring.scheduler.affinity import PodTerms, Term, terms_of
from mooring.scheduler.contract import Cycle
from mooring.scheduler.plugins.volume_restrictions import ONE_POD
from mooring.scheduler.ports import host_ports
from mooring.scheduler.spreading import DO_NOT_SCHEDULE, Constraint, constraints_of, counted_nodes
from mooring.volumes import nodeset
from mooring.volumes.disks_in_use import conflict

#: How many pods are named; the others are counted.
NAMED: Final = 3

#: Keys of pods by a label of the nodes they are on: its key, then its value.
_ByDomain: TypeAlias = defaultdict[str, defaultdict[str, list[str]]]


class Neighbours:
    """The pods on nodes, seen by one that looks for a node."""

    def __init__(self, cycle: Cycle, objects: ClusterObjects) -> None:
        self._pod = cycle.pod
        self._snapshot = cycle.snapshot
        self._objects = objects

    def ports(self, node: Node) -> str:
        held = {
            f"{mine.protocol} {mine.port} is {other.key}'s": None
            for other in self._snapshot.pods_on(node.name)
            for mine in host_ports(self._pod)
            for theirs in host_ports(other)
            if mine.conflicts(theirs)
        }
        return _some(held)

    def disks(self, node: Node) -> str:
        others = (other.key for other in self._snapshot.pods_on(node.name) if conflict(self._pod, other))
        return f"in use by {_some(others)}"

    @cached_property
    def claim_users(self) -> str:
        """Who uses a claim of which only one pod may have a volume."""
        said: list[str] = []
        for key in self.single_use_claims:
            users = [f"{pod.key} on {pod.spec.node_name}" for pod in self.users(key)]
            said.append(f"claim {key} is used by {_some(users) or 'a pod that is not listed'}")
        return "; ".join(said)

    def users(self, claim: str) -> list[Pod]:
        """The other pods that have a node, listed or not, and use a claim."""
        return [
            pod
            for pod in self._objects.of(POD)
            if claim in pod.claim_keys and pod.spec.node_name and not pod.finished and pod.key != self._pod.key
        ]

    @property
    def single_use_claims(self) -> list[str]:
        """The claims of the pod that only one pod may use and another pod uses."""
        claims = ((key, self._snapshot.volumes.claim(key)) for key in self._pod.claim_keys)
        return [
            key
            for key, claim in claims
            if claim is not None and ONE_POD in claim.spec.access_modes and self._snapshot.volumes.in_use(key)
        ]

    def spread(self, node: Node) -> str:
        return "; ".join(
            said for constraint in self._constraints() if (said := self._uneven(constraint, node)) is not None
        )

    def unlabelled(self, node: Node) -> str:
        keys = dict.fromkeys(one.topology_key for one in self._constraints())
        return ", ".join(f"the node has no label {key}" for key in keys if key not in node.metadata.labels)

    @cached_property
    def wanted(self) -> str:
        """Whom the pod wants to be near."""
        return "; ".join(
            f"wants a pod with {_selected(term)} in its {term.topology_key}" for term in _terms(self._pod).affinity
        )

    def avoided(self, node: Node) -> str:
        """Whom the pod does not want to be near and who is there."""
        return self._told(self._avoided, node, "which it must not be near")

    def avoiding(self, node: Node) -> str:
        """Who is there and does not want the pod near."""
        return self._told(self._avoiding, node, "who must not have it near")

    @cached_property
    def _avoided(self) -> _ByDomain:
        """Worked out once: a cluster has more pods than one can look at for every node."""
        found: _ByDomain = defaultdict(lambda: defaultdict(list))
        for node, pod in self._placed():
            for term in _terms(self._pod).anti_affinity:
                self._note(found, term, node, pod, meant=self._means(term, pod))
        return found

    @cached_property
    def _avoiding(self) -> _ByDomain:
        found: _ByDomain = defaultdict(lambda: defaultdict(list))
        for node, pod in self._placed():
            for term in _terms(pod).anti_affinity:
                self._note(found, term, node, pod, meant=self._means(term, self._pod))
        return found

    def _note(self, found: _ByDomain, term: Term, node: str, pod: Pod, *, meant: bool) -> None:
        domain = self._snapshot.topology.labels(node).get(term.topology_key)
        if meant and domain is not None:
            found[term.topology_key][domain].append(pod.key)

    def avoided_on(self, node: Node) -> list[str]:
        """Keys of the pods that the pod must not be near and that keep it off the node."""
        return [key for _, _, pods in _near(self._avoided, node) for key in pods]

    def avoiding_on(self, node: Node) -> list[str]:
        """Keys of the pods that must not have the pod near and that keep it off the node."""
        return [key for _, _, pods in _near(self._avoiding, node) for key in pods]

    def _told(self, found: _ByDomain, node: Node, how: str) -> str:
        near = _near(found, node)
        return "; ".join(f"{key}={domain} has {_some(dict.fromkeys(pods))}, {how}" for key, domain, pods in near)

    def _uneven(self, constraint: Constraint, node: Node) -> str | None:
        snapshot, key = self._snapshot, constraint.topology_key
        if key not in node.metadata.labels:
            return None
        counts = {} if constraint.counts_nobody else snapshot.pods.matching(constraint.pods).counts
        labelled = snapshot.domains.having(key) & counted_nodes(constraint, self._pod, snapshot)
        census = snapshot.domains.census(key, counts, labelled, snapshot.resources.width)
        here = int(census.by_slot[snapshot.topology.slot(node.name)])
        least = int(census.least) if census.domains >= constraint.min_domains else 0
        if here + constraint.matches(self._pod) - least <= constraint.max_skew:
            return None
        place = f"{key}={node.metadata.labels[key]}"
        return f"{place} has {here} such pods and the least has {least}; maxSkew is {constraint.max_skew}"

    def _constraints(self) -> tuple[Constraint, ...]:
        try:
            return constraints_of(self._pod, DO_NOT_SCHEDULE)
        except SelectorError:
            return ()

    def _placed(self) -> Iterable[tuple[str, Pod]]:
        for slot in nodeset.slots(self._snapshot.nodes):
            name = self._snapshot.topology.name(slot)
            for pod in self._snapshot.pods_on(name):
                yield name, pod

    def _means(self, term: Term, pod: Pod) -> bool:
        return term.pods.matches(pod, self._snapshot.pods.namespace_labels(pod.namespace))


def _near(found: _ByDomain, node: Node) -> Iterator[tuple[str, str, list[str]]]:
    """The domains of a node that hold such pods: key, value and the pods."""
    labels = node.metadata.labels
    return ((key, labels[key], domains[labels[key]]) for key, domains in found.items() if labels.get(key) in domains)


def _terms(pod: Pod) -> PodTerms:
    try:
        return terms_of(pod)
    except SelectorError:
        # The snapshot counts such a pod as one that says nothing, and says so.
        return PodTerms()


def _selected(term: Term) -> str:
    return str(term.pods.labels) or "any labels"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more} more" if more > 0 else "")
