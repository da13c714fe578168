"""The kinds of disks the stand-ins have, and where one is made: in the node's own domain, or in several at once.

Pure. A disk in one domain goes where the selected node is: the scheduler has looked at the allowed topologies by then.
One with copies in several domains takes the others from what the class allows, and refuses when too few remain.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from mooring.api import keys
from mooring.api.views.node import Node
from mooring.api.views.storage import TopologyTerm
from mooring.provisioner.standins.contract import Cloud, Domain, Made, Place, Refused
from mooring.provisioner.topology_terms import offset

#: A class parameter: which node labels name a domain, for a rack that is labelled in another way than ours.
TOPOLOGY_KEYS: Final = "topologyKeys"

_T = TypeVar("_T")

_REGION: Final = (keys.REGION, keys.REGION_BETA)


class Disk(NamedTuple):
    """A kind of disk: the labels that say where it is, and in how many such places it is at once."""

    noun: str
    #: For each label that takes part its spellings, today's first.
    labels: tuple[tuple[str, ...], ...]
    copies: int = 1

    def provision(
        self,
        selected_node: Node | None,
        allowed_topologies: Sequence[TopologyTerm],
        *,
        parameters: Mapping[str, str],
        claim: str,
        cloud: Cloud,
    ) -> Made | Refused:
        """See `contract.Provision`."""
        map_of = _Map(self._labelled_by(parameters), allowed_topologies)
        if foreign := map_of.foreign_keys():
            known = ", ".join(label[0] for label in map_of.labels)
            return Refused(f"{self.noun} cannot be limited by {foreign}: allowedTopologies may name {known} only")
        if selected_node is None:
            return self._anywhere(map_of, claim, cloud)
        return self._at(selected_node, map_of, claim, cloud)

    def _labelled_by(self, parameters: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
        own = parameters.get(TOPOLOGY_KEYS, "")
        return tuple((key.strip(),) for key in own.split(",")) if own else self.labels

    def _anywhere(self, map_of: "_Map", claim: str, cloud: Cloud) -> Made | Refused:
        regions = map_of.allowed_domains(cloud)
        enough = {name: domains for name, domains in regions.items() if len(domains) >= self.copies}
        if not enough:
            return self._too_few([domain for domains in regions.values() for domain in domains])
        if self.copies == 1:
            domains = [domain for name in sorted(enough) for domain in enough[name]]
        else:
            domains = enough[_by_turns(sorted(enough), claim)[0]]
        return Made(tuple(sorted(_by_turns(domains, claim)[: self.copies])))

    def _at(self, node: Node, map_of: "_Map", claim: str, cloud: Cloud) -> Made | Refused:
        home = map_of.domain_of(node)
        if home is None:
            wanted = " and ".join(label[0] for label in map_of.labels)
            return Refused(f'node "{node.name}" does not say where it is: it has no label {wanted}', elsewhere=True)
        if not map_of.allows(home):
            return Refused(f'node "{node.name}" is in {home}, which the class does not allow', elsewhere=True)
        if trouble := cloud.trouble_in(home.place):
            return Refused(trouble, elsewhere=True)
        if self.copies == 1:
            return Made((home,))
        near = map_of.allowed_domains(cloud).get(_region(node.metadata.labels), [])
        others = [domain for domain in near if domain.place != home.place]
        if len(others) < self.copies - 1:
            return self._too_few([home, *others])._replace(elsewhere=True)
        return Made(tuple(sorted((home, *_by_turns(others, claim)[: self.copies - 1]))))

    def _too_few(self, domains: Iterable[Domain]) -> Refused:
        left = sorted({str(domain) for domain in domains})
        if self.copies == 1:
            return Refused(f"{self.noun} can be made nowhere: no node is in a place that the class allows and has room")
        remaining = f"only {' and '.join(left)} remain{'s' if len(left) == 1 else ''}" if left else "none remains"
        return Refused(f"{self.noun} needs {self.copies} zones in one region, and {remaining} of what the class allows")


class _Map:
    """Where nodes are, in the labels of one kind of disk, and what of that a class allows."""

    def __init__(self, labels: tuple[tuple[str, ...], ...], allowed: Sequence[TopologyTerm]) -> None:
        self.labels = labels
        self._allowed = allowed
        #: How the class itself spells labels; volumes are spelled alike where the nodes allow it.
        self._spoken = {one.key for term in allowed for one in term.match_label_expressions}

    def foreign_keys(self) -> str:
        """Keys in the class that this kind of disk cannot be limited by."""
        known = {spelling for label in self.labels for spelling in label}
        return ", ".join(sorted(f'"{key}"' for key in self._spoken - known))

    def domain_of(self, node: Node) -> Domain | None:
        pairs: list[tuple[str, str]] = []
        for spellings in self.labels:
            carried = [key for key in spellings if key in node.metadata.labels]
            if not carried:
                return None
            key = next((key for key in carried if key in self._spoken), carried[0])
            pairs.append((key, node.metadata.labels[key]))
        return Domain(tuple(pairs))

    def allows(self, domain: Domain) -> bool:
        return not self._allowed or any(self._admits(term, domain) for term in self._allowed)

    def _admits(self, term: TopologyTerm, domain: Domain) -> bool:
        values = dict(zip(self.labels, (value for _, value in domain.labels), strict=True))
        wanted = term.match_label_expressions
        return bool(wanted) and all(
            value in one.values for one in wanted for label, value in values.items() if one.key in label
        )

    def allowed_domains(self, cloud: Cloud) -> dict[str, list[Domain]]:
        """By region, every domain with a node in it that the class allows and where something can be made."""
        regions: defaultdict[str, dict[Place, Domain]] = defaultdict(dict)
        for node in cloud.nodes:
            domain = self.domain_of(node)
            if domain is not None and self.allows(domain) and not cloud.trouble_in(domain.place):
                regions[_region(node.metadata.labels)].setdefault(domain.place, domain)
        return {name: sorted(found.values()) for name, found in regions.items()}


def _by_turns(choices: Sequence[_T], claim: str) -> list[_T]:
    """Beginning with the one whose turn it is: replicas of a set go to different places, claims of a pod to one."""
    first = offset(claim) % len(choices) if choices else 0
    return [*choices[first:], *choices[:first]]


def _region(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in _REGION if key in labels), "")


_ZONE: Final = (keys.ZONE, keys.ZONE_BETA)

ZONAL: Final = Disk("a zonal disk", (_ZONE,))
REGIONAL: Final = Disk("a regional disk", (_ZONE,), copies=2)
LOCAL: Final = Disk("a disk of a node", ((keys.HOSTNAME,),))
RACK: Final = Disk("a disk of a rack", (_ZONE, (keys.RACK,)))
