"""The volume library filled with objects and queried by node names, for tests of volume decisions."""

from collections.abc import Iterable

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume, VolumeAttachment
from mooring.volumes.binding import BindingPlan, PodClaims
from mooring.volumes.free_volumes import VolumeQuery
from mooring.volumes.matching import requirements_of
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex
from support.builders.classes import a_class
from support.builders.drivers import DRIVER
from support.builders.pods import a_pod

#: Two nodes in two zones.
NODES = {name: {well_known.HOSTNAME: name, well_known.ZONE: f"zone-{name}"} for name in ("n1", "n2")}


class VolumeLibrary:
    """A `VolumeState` with two nodes and a class of each kind, queried by node names."""

    def __init__(self, *things: ApiObject, nodes: dict[str, dict[str, str]] = NODES) -> None:
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        for name, labels in nodes.items():
            self.topology.put(name, labels)
        for storage_class in (
            a_class(name="local"),
            a_class(name="now", binding_mode="Immediate"),
            a_class(name="made", provisioner=DRIVER, allowed_topologies=[{well_known.HOSTNAME: ["n1"]}]),
        ):
            self.state.observe_class(None, storage_class)
        for thing in things:
            self.add(thing)

    def add(self, thing: ApiObject) -> None:
        match thing:
            case Volume():
                self.state.observe_volume(None, thing)
            case Claim():
                self.state.observe_claim(None, thing)
            case StorageClass():
                self.state.observe_class(None, thing)
            case CsiDriver():
                self.state.observe_driver(None, thing)
            case CsiNode():
                self.state.observe_csi_node(None, thing)
            case StorageCapacity():
                self.state.observe_capacity(None, thing)
            case VolumeAttachment():
                self.state.observe_attachment(None, thing)
            case _:
                raise TypeError(f"unexpected kind: {thing}")

    def claims(self, *names: str) -> PodClaims:
        found = self.state.claims_of(a_pod(claims=names))
        assert isinstance(found, PodClaims), found
        return found

    def rejected(self, *names: str) -> dict[str, set[str]]:
        """Rejected nodes by reason, in the order of the reasons."""
        rejections = self.state.rejections(self.claims(*names))
        return {reason: set(self.topology.names(nodes)) for nodes, reason in rejections}

    def matches(self, *names: str, node: str) -> dict[str, str | None]:
        found = self.state.matches(self.claims(*names), node)
        return {claim.name: None if volume is None else volume.name for claim, volume in found}

    def plan(self, *names: str, node: str) -> BindingPlan:
        return self.state.plan(self.claims(*names), node)


def _index_of(volumes: Iterable[Volume], node: dict[str, str]) -> VolumeIndex:
    topology = TopologyIndex()
    topology.put("node", node)
    index = VolumeIndex(topology)
    for volume in volumes:
        index.put(volume)
    return index


def assigned_volume(claim: Claim, volumes: Iterable[Volume], *, node: dict[str, str] = NODES["n1"]) -> Volume | None:
    """The volume that the scheduler would bind to a single claim on a node with these labels."""
    return _index_of(volumes, node).assignment([VolumeQuery(requirements_of(claim))], "node")[0]


def best_volume(claim: Claim, volumes: Iterable[Volume], *, reserved_only: bool = False) -> Volume | None:
    """The volume that the PV controller would bind to a claim."""
    return _index_of(volumes, {}).best(requirements_of(claim), reserved_only=reserved_only)
