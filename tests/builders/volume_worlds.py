"""A volume library filled with objects and asked by node names, for tests about decisions."""

from builders.classes import a_class
from builders.drivers import DRIVER
from builders.pods import a_pod
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.volumes.plan import BindingPlan
from mooring.volumes.state import PodClaims, VolumeState
from mooring.volumes.topology import TopologyIndex

#: Two nodes in two zones.
NODES = {name: {keys.HOSTNAME: name, keys.ZONE: f"zone-{name}"} for name in ("n1", "n2")}


class VolumeWorld:
    """A `VolumeState` with two nodes and a class of each sort, asked by node names."""

    def __init__(self, *things: ApiObject, nodes: dict[str, dict[str, str]] = NODES) -> None:
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        for name, labels in nodes.items():
            self.topology.put(name, labels)
        for storage_class in (
            a_class(name="local"),
            a_class(name="now", binding_mode="Immediate"),
            a_class(name="made", provisioner=DRIVER, allowed_topologies=[{keys.HOSTNAME: ["n1"]}]),
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
                raise TypeError(f"the volume library knows nothing of {thing}")

    def claims(self, *names: str) -> PodClaims:
        found = self.state.claims_of(a_pod(claims=names))
        assert isinstance(found, PodClaims), found
        return found

    def rejected(self, *names: str) -> dict[str, set[str]]:
        """Reasons, in their order, with the nodes they reject."""
        rejections = self.state.rejections(self.claims(*names))
        return {reason: set(self.topology.names(nodes)) for nodes, reason in rejections}

    def matches(self, *names: str, node: str) -> dict[str, str | None]:
        found = self.state.matches(self.claims(*names), node)
        return {claim.name: None if volume is None else volume.name for claim, volume in found}

    def plan(self, *names: str, node: str) -> BindingPlan:
        return self.state.plan(self.claims(*names), node)
