"""Disk types, simulated pools and the table of stand-in provisioners. Pure.

A `Place` is the set of label values that names one topology domain: a zone, a node, a zone with a rack. A disk is
placed in the selected node's domain; one with several copies takes the others from the allowed topologies.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from mooring.api import quantity, well_known
from mooring.api.views.core import Node
from mooring.api.views.storage import StorageClass, TopologyTerm, Volume
from mooring.provisioner.provision.topology import offset

#: The label values that name a topology domain.
Place = frozenset[str]


class Domain(NamedTuple):
    """One topology domain, in the labels that its nodes carry."""

    labels: tuple[tuple[str, str], ...]

    @property
    def place(self) -> Place:
        return frozenset(value for _, value in self.labels)

    def __str__(self) -> str:
        return "/".join(value for _, value in self.labels)


class Cloud(NamedTuple):
    """Nodes and free capacity of the simulated cloud."""

    nodes: Collection[Node]
    #: Why no volume can be provisioned in a domain; "" if one can.
    unavailable_reason: Callable[[Place], str]


class StandInFailure(Exception):
    def __init__(self, reason: str, *, reschedule: bool = False) -> None:
        """`reschedule`: another node may fit, so the selected node is cleared."""
        super().__init__(reason)
        self.reason = reason
        self.reschedule = reschedule


#: Class parameter: the node labels that name a domain, for clusters with other rack labels.
TOPOLOGY_KEYS: Final = "topologyKeys"

_T = TypeVar("_T")

_REGION: Final = (well_known.REGION, well_known.REGION_BETA)


class DiskType(NamedTuple):
    """The labels that name its domain, and the number of domains it has a copy in."""

    noun: str
    #: For each label its spellings, the current one first.
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
    ) -> tuple[Domain, ...]:
        """The domains of a volume for the claim of this name; without a selected node any that the class allows. The
        volume can be used in any of them. Raises StandInFailure."""
        keys = parameters.get(TOPOLOGY_KEYS, "")
        labels = tuple((key.strip(),) for key in keys.split(",")) if keys else self.labels
        map_of = _DomainMap(labels, allowed_topologies)
        if foreign := map_of.foreign_keys():
            known = ", ".join(label[0] for label in map_of.labels)
            raise StandInFailure(f"{self.noun} cannot be limited by {foreign}: allowedTopologies may name {known} only")
        if selected_node is None:
            return self._anywhere(map_of, claim, cloud)
        return self._at(selected_node, map_of, claim, cloud)

    def _anywhere(self, map_of: "_DomainMap", claim: str, cloud: Cloud) -> tuple[Domain, ...]:
        regions = map_of.allowed_domains(cloud)
        enough = {name: domains for name, domains in regions.items() if len(domains) >= self.copies}
        if not enough:
            raise self._too_few([domain for domains in regions.values() for domain in domains])
        if self.copies == 1:
            domains = [domain for name in sorted(enough) for domain in enough[name]]
        else:
            domains = enough[_rotated(sorted(enough), claim)[0]]
        return tuple(sorted(_rotated(domains, claim)[: self.copies]))

    def _at(self, node: Node, map_of: "_DomainMap", claim: str, cloud: Cloud) -> tuple[Domain, ...]:
        home = map_of.domain_of(node)
        if home is None:
            request = " and ".join(label[0] for label in map_of.labels)
            raise StandInFailure(
                f'node "{node.name}" does not say where it is: it has no label {request}', reschedule=True
            )
        if not map_of.allows(home):
            raise StandInFailure(f'node "{node.name}" is in {home}, which the class does not allow', reschedule=True)
        if trouble := cloud.unavailable_reason(home.place):
            raise StandInFailure(trouble, reschedule=True)
        if self.copies == 1:
            return (home,)
        near = map_of.allowed_domains(cloud).get(_region(node.metadata.labels), [])
        others = [domain for domain in near if domain.place != home.place]
        if len(others) < self.copies - 1:
            raise self._too_few([home, *others], reschedule=True)
        return tuple(sorted((home, *_rotated(others, claim)[: self.copies - 1])))

    def _too_few(self, domains: Iterable[Domain], *, reschedule: bool = False) -> StandInFailure:
        left = sorted({str(domain) for domain in domains})
        if self.copies == 1:
            return StandInFailure(f"no allowed topology with a node has enough capacity for {self.noun}")
        remaining = f"only {' and '.join(left)} remain{'s' if len(left) == 1 else ''}" if left else "none remains"
        return StandInFailure(
            f"{self.noun} needs {self.copies} zones in one region, and {remaining} of what the class allows",
            reschedule=reschedule,
        )


class _DomainMap:
    """Domains of nodes for one disk type, and which of them the class allows."""

    def __init__(self, labels: tuple[tuple[str, ...], ...], allowed: Sequence[TopologyTerm]) -> None:
        self.labels = labels
        self._allowed = allowed
        #: Keys in the class's allowedTopologies; volumes use the same keys if the nodes have them.
        self._class_keys = {one.key for term in allowed for one in term.match_label_expressions}

    def foreign_keys(self) -> str:
        """Keys in allowedTopologies that are not labels of this disk type."""
        known = {spelling for label in self.labels for spelling in label}
        return ", ".join(sorted(f'"{key}"' for key in self._class_keys - known))

    def domain_of(self, node: Node) -> Domain | None:
        pairs: list[tuple[str, str]] = []
        for spellings in self.labels:
            carried = [key for key in spellings if key in node.metadata.labels]
            if not carried:
                return None
            key = next((key for key in carried if key in self._class_keys), carried[0])
            pairs.append((key, node.metadata.labels[key]))
        return Domain(tuple(pairs))

    def allows(self, domain: Domain) -> bool:
        return not self._allowed or any(self._admits(term, domain) for term in self._allowed)

    def _admits(self, term: TopologyTerm, domain: Domain) -> bool:
        values = dict(zip(self.labels, (value for _, value in domain.labels), strict=True))
        request = term.match_label_expressions
        return bool(request) and all(
            value in one.values for one in request for label, value in values.items() if one.key in label
        )

    def allowed_domains(self, cloud: Cloud) -> dict[str, list[Domain]]:
        """By region, every allowed domain that has a node and enough capacity."""
        regions: defaultdict[str, dict[Place, Domain]] = defaultdict(dict)
        for node in cloud.nodes:
            domain = self.domain_of(node)
            if domain is not None and self.allows(domain) and not cloud.unavailable_reason(domain.place):
                regions[_region(node.metadata.labels)].setdefault(domain.place, domain)
        return {name: sorted(found.values()) for name, found in regions.items()}


def _rotated(choices: Sequence[_T], claim: str) -> list[_T]:
    """Rotated by the claim's name: replicas of a StatefulSet get different domains, claims of one pod the same."""
    first = offset(claim) % len(choices) if choices else 0
    return [*choices[first:], *choices[:first]]


def _region(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in _REGION if key in labels), "")


_ZONE: Final = (well_known.ZONE, well_known.ZONE_BETA)

ZONAL: Final = DiskType("a zonal disk", (_ZONE,))
REGIONAL: Final = DiskType("a regional disk", (_ZONE,), copies=2)
LOCAL: Final = DiskType("a disk of a node", ((well_known.HOSTNAME,),))
RACK: Final = DiskType("a disk of a rack", (_ZONE, (well_known.RACK,)))


#: Class parameters that limit the simulated storage: bytes per domain, and domains without any.
CAPACITY: Final = "capacityPerDomain"
UNAVAILABLE: Final = "unavailableIn"


class _PoolCharge(NamedTuple):
    storage_class: str
    places: tuple[Place, ...]
    size: int


class StandInPools:
    """Used capacity by class and domain. Charges of existing volumes are read from the volumes after a restart."""

    def __init__(self) -> None:
        self._charges: dict[str, _PoolCharge] = {}
        #: In bytes, of pools with volumes.
        self._used: Counter[tuple[str, Place]] = Counter()

    def charge(self, volume: str, storage_class: str, places: Collection[Place], size: int) -> None:
        """Charge a volume to each of its domains, replacing an earlier charge of the volume."""
        self.release(volume)
        charge = _PoolCharge(storage_class, tuple(places), size)
        self._charges[volume] = charge
        for place in charge.places:
            self._used[storage_class, place] += size

    def release(self, volume: str) -> None:
        charge = self._charges.pop(volume, None)
        if charge is not None:
            for place in charge.places:
                pool = charge.storage_class, place
                self._used[pool] -= charge.size
                if not self._used[pool]:
                    del self._used[pool]

    def observe(self, volume: Volume) -> None:
        size = quantity.to_bytes(volume.size)
        self.charge(volume.name, volume.storage_class, tuple(places_of(volume)), size)

    def unavailable_reason(self, place: Place, storage_class: StorageClass, size: int) -> str:
        """Why a volume of this size and class cannot be provisioned in a domain; "" if it can."""
        where = "/".join(sorted(place))
        unavailable = storage_class.parameters.get(UNAVAILABLE, "").split(",")
        if place & {name.strip() for name in unavailable if name.strip()}:
            return f"storage in {where} is not available"
        limit = storage_class.parameters.get(CAPACITY)
        if limit is None:
            return ""
        free = max(quantity.to_bytes(limit) - self._used[storage_class.name, place], 0)
        return "" if size <= free else f"not enough storage in {where}: {size} bytes requested, {free} free"


def places_of(volume: Volume) -> Iterator[Place]:
    """The domains of a stand-in's volume, from its node affinity."""
    required = volume.required_affinity
    for term in () if required is None else required.node_selector_terms:
        if len(term.match_expressions) == 1:
            yield from (frozenset((value,)) for value in term.match_expressions[0].values)
        else:
            yield frozenset(value for one in term.match_expressions for value in one.values)


#: GCE's class parameter and value for disks with a copy in a second zone.
REPLICATION_TYPE: Final = "replication-type"
REGIONAL_PD: Final = "regional-pd"

Source = Callable[[str, str], Mapping[str, Any]]


def _csi(driver: str, volume: str) -> Mapping[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": volume}}


def _gce(_: str, volume: str) -> Mapping[str, Any]:
    return {"gcePersistentDisk": {"pdName": volume, "fsType": "ext4"}}


def _ebs(_: str, volume: str) -> Mapping[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": volume, "fsType": "ext4"}}


class StandIn(NamedTuple):
    provisioner: str
    disk: DiskType
    #: In-tree plugin whose claims are migrated to this provisioner, and the volume source for them.
    in_tree: str = ""
    in_tree_source: Source = _csi

    def disk_for(self, parameters: Mapping[str, str]) -> DiskType:
        request = parameters.get(REPLICATION_TYPE, "")
        return REGIONAL if self.disk is ZONAL and request == REGIONAL_PD else self.disk

    def source(self, provisioner: str, volume: str) -> Mapping[str, Any]:
        """The volume source; that of the in-tree plugin for its classes."""
        if self.in_tree and provisioner == self.in_tree:
            return self.in_tree_source(provisioner, volume)
        return _csi(self.provisioner, volume)


#: The last two have the names of real drivers, to which Kubernetes migrates claims of the in-tree plugins.
STAND_INS: Final = (
    StandIn("zonal.standins.mooring.dev", ZONAL),
    StandIn("regional.standins.mooring.dev", REGIONAL),
    StandIn("local.standins.mooring.dev", LOCAL),
    StandIn("rack.standins.mooring.dev", RACK),
    StandIn("pd.csi.storage.gke.io", ZONAL, "kubernetes.io/gce-pd", _gce),
    StandIn("ebs.csi.aws.com", ZONAL, "kubernetes.io/aws-ebs", _ebs),
)

BY_NAME: Final = {name: one for one in STAND_INS for name in (one.provisioner, one.in_tree) if name}
