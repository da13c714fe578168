"""Which steps a write goes through, in this order."""

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.kinds import (
    CLAIM,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    IDLE,
    NAMESPACE,
    POD,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.server.admission.claim_rollback import guard_mark, guard_unbinding
from mooring.server.admission.idle_kinds import warn_of_idleness
from mooring.server.admission.namespace_lifecycle import hold_until_empty, require_namespace
from mooring.server.admission.pod_topology import label_with_topology
from mooring.server.admission.priority import keep_one_default, keep_priority, resolve_priority
from mooring.server.admission.privilege_escalation import refuse_escalation, refuse_foreign_role
from mooring.server.admission.review import Review, Step
from mooring.server.admission.service_account import default_service_account, keep_service_account
from mooring.server.admission.services import warn_of_missing_address
from mooring.server.admission.storage import check_growth, choose_default_class, protect, warn_of_fraction
from mooring.server.admission.tolerations import tolerate_lost_nodes
from mooring.server.admission.zones import place_by_labels, refuse_two_topologies

_ACCESS: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    **dict.fromkeys((ROLE, CLUSTER_ROLE), (refuse_escalation,)),
    **dict.fromkeys((ROLE_BINDING, CLUSTER_ROLE_BINDING), (refuse_foreign_role,)),
}
_CREATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    POD: (resolve_priority, default_service_account, tolerate_lost_nodes, label_with_topology),
    CLAIM: (choose_default_class, protect, warn_of_fraction),
    VOLUME: (protect, place_by_labels),
    STORAGE_CLASS: (refuse_two_topologies,),
    SERVICE: (warn_of_missing_address,),
    NAMESPACE: (hold_until_empty,),
    PRIORITY_CLASS: (keep_one_default,),
    **dict.fromkeys(IDLE, (warn_of_idleness,)),
    **_ACCESS,
}
_UPDATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    POD: (keep_priority, keep_service_account, tolerate_lost_nodes),
    CLAIM: (guard_unbinding, guard_mark),
    PRIORITY_CLASS: (keep_one_default,),
    STORAGE_CLASS: (refuse_two_topologies,),
    **_ACCESS,
}
#: Steps for valid updates, which they may refuse but no longer change.
_VALID_UPDATE: Final[Mapping[Kind[Any], tuple[Step, ...]]] = {
    CLAIM: (check_growth,),
}


async def admit(review: Review) -> None:
    """The steps before validation; the first that raises ends the write."""
    if review.old is None:
        if review.kind.namespaced:
            await require_namespace(review)
        steps = _CREATE.get(review.kind, ())
    else:
        steps = _UPDATE.get(review.kind, ())
    for step in steps:
        await step(review)


async def admit_valid(review: Review) -> None:
    """The steps after validation: an update that is wrong in itself hears that first."""
    if review.old is not None:
        for step in _VALID_UPDATE.get(review.kind, ()):
            await step(review)
