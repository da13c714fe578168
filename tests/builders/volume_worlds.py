"""A volume library filled with objects and asked by node names, for tests about decisions."""

from builders.classes import a_class
from builders.pods import a_pod
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes.plan import BindingPlan
from mooring.volumes.state import PodClaims, VolumeState
from mooring.volumes.topology import TopologyIndex

#: Two nodes in two zones.
NODES = {name: {keys.HOSTNAME: name, keys.ZONE: f"zone-{name}"} for name in ("n1", "n2")}


class VolumeWorld:
    """A `VolumeState` with two nodes and a class of each sort, asked by node names."""

    def __init__(self, *things: Volume | Claim, nodes: dict[str, dict[str, str]] = NODES) -> None:
        self.topology = TopologyIndex()
        self.state = VolumeState(self.topology)
        for name, labels in nodes.items():
            self.topology.put(name, labels)
        for storage_class in (
            a_class(name="local"),
            a_class(name="now", binding_mode="Immediate"),
            a_class(name="made", provisioner="csi.example.com", allowed_topologies=[{keys.HOSTNAME: ["n1"]}]),
        ):
            self.state.observe_class(None, storage_class)
        for thing in things:
            if isinstance(thing, Volume):
                self.state.observe_volume(None, thing)
            else:
                self.state.observe_claim(None, thing)

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
