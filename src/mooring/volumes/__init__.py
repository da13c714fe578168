"""The volume library: which volumes fit a claim, on which nodes, and what binding them takes.

Between `api` and everything else; pure, so that any scheduler can import it. Facts come in as changes of objects
(`VolumeState.observe_*`), answers come out for all nodes at once as node sets, and a plan for one chosen node. No
I/O, no clock, no randomness, no await; whoever uses it does the writing.

What is named here is for everybody; `docs/volumes-library.md` tells how it is used together.
"""

from mooring.volumes.assume import OutOfSync
from mooring.volumes.fit import Fit
from mooring.volumes.matching import Criterion, why_not
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.scoring import EMPTIEST_FIRST, CapacityPolicy, Ramp, RampPoint, preference, utilization
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex

__all__ = [
    "EMPTIEST_FIRST",
    "BindingPlan",
    "CapacityPolicy",
    "Criterion",
    "Fit",
    "NodeSet",
    "OutOfSync",
    "PodClaims",
    "Provisioning",
    "Ramp",
    "RampPoint",
    "StaticBinding",
    "TopologyIndex",
    "VolumeState",
    "preference",
    "utilization",
    "why_not",
]
