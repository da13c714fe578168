"""The profiles: plugins in kube-scheduler's order and with its weights. They differ in how VolumeBinding scores."""

from collections.abc import Mapping
from typing import Final

from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.plugins.gates import DefaultPreemption, Unsupported
from mooring.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from mooring.scheduler.plugins.node_predicates import (
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
)
from mooring.scheduler.plugins.node_resources import ImageLocality, NodeResourcesBalancedAllocation, NodeResourcesFit
from mooring.scheduler.plugins.pod_topology_spread import PodTopologySpread
from mooring.scheduler.plugins.volume_binding import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumePreferredAffinity,
    VolumeSpread,
)
from mooring.scheduler.plugins.volume_restrictions import VolumeRestrictions, VolumeZone
from mooring.volumes.scoring import EMPTIEST_FIRST


def _profile(volume_binding: VolumeBinding) -> Profile:
    return Profile(
        (
            Unsupported(),
            NodeName(),
            NodeUnschedulable(),
            TaintToleration(),
            NodeAffinity(),
            NodePorts(),
            NodeResourcesFit(),
            VolumeRestrictions(),
            NodeVolumeLimits(),
            volume_binding,
            VolumeZone(),
            VolumePreferredAffinity(),
            PodTopologySpread(),
            InterPodAffinity(),
            DefaultPreemption(),
            NodeResourcesBalancedAllocation(),
            ImageLocality(),
            NodeDeclaredFeatures(),
        )
    )


DEFAULT: Final = _profile(VolumeBinding())
#: Scores volumes by kube-scheduler's formula with its weight, so that the best nodes are those it would find.
KUBE_SCHEDULER: Final = _profile(VolumeBinding(EMPTIEST_FIRST))

#: The values of `--scoring`.
SCORING: Final[Mapping[str, Profile]] = {"mooring": DEFAULT, "kube-scheduler": KUBE_SCHEDULER}

#: Mooring's own plugins, off unless a profile enables them.
OPTIONAL: Final = (VolumeSpread(),)
