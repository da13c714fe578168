"""Which rules apply to which kind, and the answer when they are broken."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from mooring.api.errors import Cause, invalid
from mooring.api.kinds import (
    CLAIM,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    CSI_DRIVER,
    CSI_NODE,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    EVENT,
    LEASE,
    NAMESPACE,
    NEW_EVENT,
    NODE,
    POD,
    POD_TEMPLATE,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    Kind,
)
from mooring.server.body import Body, meta
from mooring.server.validation.access import (
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_cluster_role_binding_update,
    validate_cluster_role_update,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
    validate_role_update,
)
from mooring.server.validation.claim import validate_claim, validate_claim_status, validate_claim_update
from mooring.server.validation.core import (
    validate_data,
    validate_data_update,
    validate_lease,
    validate_lease_update,
    validate_service,
    validate_service_update,
)
from mooring.server.validation.daemon_set import (
    validate_daemon_set,
    validate_daemon_set_status,
    validate_daemon_set_update,
)
from mooring.server.validation.disruption import (
    validate_budget,
    validate_budget_status,
    validate_budget_update,
    validate_priority_class,
    validate_priority_class_update,
)
from mooring.server.validation.driver import (
    validate_attachment,
    validate_attachment_update,
    validate_capacity,
    validate_capacity_update,
    validate_driver,
    validate_driver_update,
)
from mooring.server.validation.event import (
    validate_event,
    validate_event_update,
    validate_new_event,
    validate_new_event_update,
)
from mooring.server.validation.metadata import validate_metadata, validate_metadata_update
from mooring.server.validation.namespace import (
    validate_namespace,
    validate_namespace_report,
    validate_namespace_update,
)
from mooring.server.validation.node import (
    validate_csi_node,
    validate_csi_node_update,
    validate_node,
    validate_node_status,
    validate_node_update,
)
from mooring.server.validation.pod import validate_pod, validate_pod_update
from mooring.server.validation.replicas import (
    validate_deployment,
    validate_deployment_status,
    validate_deployment_update,
    validate_pod_template_object,
    validate_pod_template_object_update,
    validate_replica_set,
    validate_replica_set_status,
    validate_replica_set_update,
    validate_replication_controller,
    validate_replication_controller_update,
    validate_revision,
    validate_revision_update,
)
from mooring.server.validation.storage_class import (
    validate_attributes_class,
    validate_attributes_class_update,
    validate_storage_class,
    validate_storage_class_update,
)
from mooring.server.validation.volume import validate_volume, validate_volume_update
from mooring.server.validation.workload import (
    validate_stateful_set,
    validate_stateful_set_status,
    validate_stateful_set_update,
)


def _nothing(new: Body, old: Body) -> Iterator[Cause]:
    yield from ()


@dataclass(frozen=True)
class Rules:
    """What a new object, a changed one and one changed through a subresource (mostly `status`) have to keep, besides
    the rules for metadata."""

    create: Callable[[Body], Iterator[Cause]]
    update: Callable[[Body, Body], Iterator[Cause]]
    status: Callable[[Body, Body], Iterator[Cause]] = _nothing


#: Kinds that are not named (ServiceAccounts, and what is kept as data only) have rules for metadata only.
_RULES: Final[Mapping[Kind[Any], Rules]] = {
    POD: Rules(validate_pod, validate_pod_update),
    NODE: Rules(validate_node, validate_node_update, validate_node_status),
    VOLUME: Rules(validate_volume, validate_volume_update),
    CLAIM: Rules(validate_claim, validate_claim_update, validate_claim_status),
    NAMESPACE: Rules(validate_namespace, validate_namespace_update, validate_namespace_report),
    EVENT: Rules(validate_event, validate_event_update),
    NEW_EVENT: Rules(validate_new_event, validate_new_event_update),
    CONFIG_MAP: Rules(validate_data, validate_data_update),
    SECRET: Rules(validate_data, validate_data_update),
    SERVICE: Rules(validate_service, validate_service_update),
    STORAGE_CLASS: Rules(validate_storage_class, validate_storage_class_update),
    CSI_NODE: Rules(validate_csi_node, validate_csi_node_update),
    CSI_DRIVER: Rules(validate_driver, validate_driver_update),
    STORAGE_CAPACITY: Rules(validate_capacity, validate_capacity_update),
    VOLUME_ATTACHMENT: Rules(validate_attachment, validate_attachment_update),
    STATEFUL_SET: Rules(validate_stateful_set, validate_stateful_set_update, validate_stateful_set_status),
    LEASE: Rules(validate_lease, validate_lease_update),
    DEPLOYMENT: Rules(validate_deployment, validate_deployment_update, validate_deployment_status),
    REPLICA_SET: Rules(validate_replica_set, validate_replica_set_update, validate_replica_set_status),
    DAEMON_SET: Rules(validate_daemon_set, validate_daemon_set_update, validate_daemon_set_status),
    CONTROLLER_REVISION: Rules(validate_revision, validate_revision_update),
    REPLICATION_CONTROLLER: Rules(
        validate_replication_controller, validate_replication_controller_update, validate_replica_set_status
    ),
    POD_TEMPLATE: Rules(validate_pod_template_object, validate_pod_template_object_update),
    DISRUPTION_BUDGET: Rules(validate_budget, validate_budget_update, validate_budget_status),
    PRIORITY_CLASS: Rules(validate_priority_class, validate_priority_class_update),
    VOLUME_ATTRIBUTES_CLASS: Rules(validate_attributes_class, validate_attributes_class_update),
    ROLE: Rules(validate_role, validate_role_update),
    CLUSTER_ROLE: Rules(validate_cluster_role, validate_cluster_role_update),
    ROLE_BINDING: Rules(validate_role_binding, validate_role_binding_update),
    CLUSTER_ROLE_BINDING: Rules(validate_cluster_role_binding, validate_cluster_role_binding_update),
}


def require_valid(kind: Kind[Any], obj: Body) -> None:
    """Raises Invalid with everything that is wrong with a new object."""
    rules = _RULES.get(kind)
    _raise(kind, obj, chain(validate_metadata(kind, obj), rules.create(obj) if rules else ()))


def require_valid_update(kind: Kind[Any], new: Body, old: Body, subresource: str) -> None:
    """Raises Invalid with everything that is wrong with a change; through a subresource, the spec is not judged."""
    causes: Iterator[Cause] = validate_metadata_update(kind, new, old)
    if rules := _RULES.get(kind):
        causes = chain(causes, rules.status(new, old) if subresource else rules.update(new, old))
    _raise(kind, new, causes)


def _raise(kind: Kind[Any], obj: Body, causes: Iterator[Cause]) -> None:
    """Causes are made one by one and only those kept that are told."""
    kind = kind.stored_as or kind  # upstream judges, and names, what is stored
    first = next(causes, None)
    if first is not None:
        raise invalid(kind.kind, meta(obj).get("name", ""), chain((first,), causes), group=kind.group)
