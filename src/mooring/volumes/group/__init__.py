"""Joint decision about a group of pods with all their volumes: a plan for the quorum, or a refusal with a certificate.

Pure, as the rest of the volume library. `members` sorts the claims, `bounds` counts how many members fit at most,
`search` finds a plan in slices, `outcome` is what comes out. Filters and scores are the caller's (`Placements`);
`VolumePlacements` looks at volumes alone.
"""

from mooring.volumes.group.members import GroupProblem, group_problem
from mooring.volumes.group.outcome import (
    DomainShortage,
    GroupPlan,
    GroupRefusal,
    MemberPlan,
    RefusalCode,
    SharedClaimPlan,
    Shortage,
    ShortageCode,
    ShortagePlace,
    certificate_lines,
)
from mooring.volumes.group.reservations import Placements, VolumePlacements
from mooring.volumes.group.search import GROUP_LOOKS, SLICE_LOOKS, GroupDomain, GroupSearch

__all__ = [
    "GROUP_LOOKS",
    "SLICE_LOOKS",
    "DomainShortage",
    "GroupDomain",
    "GroupPlan",
    "GroupProblem",
    "GroupRefusal",
    "GroupSearch",
    "MemberPlan",
    "Placements",
    "RefusalCode",
    "SharedClaimPlan",
    "Shortage",
    "ShortageCode",
    "ShortagePlace",
    "VolumePlacements",
    "certificate_lines",
    "group_problem",
]
