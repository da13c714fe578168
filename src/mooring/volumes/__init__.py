"""The volume library: which PersistentVolumes match a claim, on which nodes, and what binding them takes.

Pure, so that any scheduler can import it: object changes go in (`VolumeState.observe_*`), node sets and a binding
plan for the chosen node come out. No I/O, clock, randomness or await; the caller does the writing. The names
exported here are the public API, described in `docs/volumes-library.md`.
"""

from mooring.volumes.binding import BindingPlan, OutOfSync, PodClaims, Provisioning, StaticBinding
from mooring.volumes.matching import Criterion, first_mismatch
from mooring.volumes.scoring import (
    EMPTIEST_FIRST,
    CapacityPolicy,
    Fit,
    UtilizationShape,
    UtilizationShapePoint,
    preference,
    utilization,
)
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import NodeSet, TopologyIndex

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
    "StaticBinding",
    "TopologyIndex",
    "UtilizationShape",
    "UtilizationShapePoint",
    "VolumeState",
    "first_mismatch",
    "preference",
    "utilization",
]
