"""The plugins Mooring's scheduler runs with: one literal, in kube-scheduler's default order.

Weights stand in the plugins and are kube-scheduler's defaults too, but for VolumeBinding, which does not score there.
Pods that need devices, for which kube-scheduler has DynamicResources, are refused in `Unsupported`.
"""

from typing import Final

from mooring.scheduler.plugins.default_preemption import DefaultPreemption
from mooring.scheduler.plugins.image_locality import ImageLocality
from mooring.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from mooring.scheduler.plugins.node_affinity import NodeAffinity
from mooring.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.scheduler.plugins.node_name import NodeName
from mooring.scheduler.plugins.node_ports import NodePorts
from mooring.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.scheduler.plugins.node_resources_fit import NodeResourcesFit
from mooring.scheduler.plugins.node_unschedulable import NodeUnschedulable
from mooring.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from mooring.scheduler.plugins.pod_topology_spread import PodTopologySpread
from mooring.scheduler.plugins.taint_toleration import TaintToleration
from mooring.scheduler.plugins.unsupported import Unsupported
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.plugins.volume_restrictions import VolumeRestrictions
from mooring.scheduler.plugins.volume_spread import VolumeSpread
from mooring.scheduler.plugins.volume_zone import VolumeZone
from mooring.scheduler.profile import Profile

DEFAULT: Final = Profile(
    (
        Unsupported(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        PodTopologySpread(),
        InterPodAffinity(),
        DefaultPreemption(),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
        NodeDeclaredFeatures(),
    )
)

#: What a profile may enable beyond that; upstream has nothing like it, and decides otherwise without.
OPTIONAL: Final = (VolumeSpread(),)
