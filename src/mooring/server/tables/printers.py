"""The registry: which kind is printed how. Kinds without a row show name and age."""

from collections.abc import Mapping
from typing import Final

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.tables.access import BINDINGS
from mooring.server.tables.columns import Printer
from mooring.server.tables.configuration import CONFIG_MAPS, DATED, OTHERS, SECRETS
from mooring.server.tables.events import EVENTS, NEW_EVENTS
from mooring.server.tables.nodes import LEASES, NAMESPACES, NODES
from mooring.server.tables.pods import PODS
from mooring.server.tables.policies import (
    DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
)
from mooring.server.tables.services import ENDPOINTS, SERVICES
from mooring.server.tables.volumes import (
    ATTRIBUTES_CLASSES,
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
)
from mooring.server.tables.workloads import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    POD_TEMPLATES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)

PRINTERS: Final[Mapping[Kind[ApiObject], Printer]] = {
    kinds.POD: PODS,
    kinds.NODE: NODES,
    kinds.VOLUME: VOLUMES,
    kinds.CLAIM: CLAIMS,
    kinds.NAMESPACE: NAMESPACES,
    kinds.EVENT: EVENTS,
    kinds.NEW_EVENT: NEW_EVENTS,
    kinds.CONFIG_MAP: CONFIG_MAPS,
    kinds.SECRET: SECRETS,
    kinds.SERVICE_ACCOUNT: OTHERS,
    kinds.SERVICE: SERVICES,
    kinds.STORAGE_CLASS: STORAGE_CLASSES,
    kinds.CSI_NODE: CSI_NODES,
    kinds.CSI_DRIVER: CSI_DRIVERS,
    kinds.STORAGE_CAPACITY: DATED,
    kinds.VOLUME_ATTACHMENT: VOLUME_ATTACHMENTS,
    kinds.STATEFUL_SET: STATEFUL_SETS,
    kinds.LEASE: LEASES,
    kinds.ENDPOINTS: ENDPOINTS,
    kinds.POD_TEMPLATE: POD_TEMPLATES,
    kinds.LIMIT_RANGE: DATED,
    kinds.RESOURCE_QUOTA: RESOURCE_QUOTAS,
    kinds.REPLICATION_CONTROLLER: REPLICATION_CONTROLLERS,
    kinds.VOLUME_ATTRIBUTES_CLASS: ATTRIBUTES_CLASSES,
    kinds.DEPLOYMENT: DEPLOYMENTS,
    kinds.REPLICA_SET: REPLICA_SETS,
    kinds.DAEMON_SET: DAEMON_SETS,
    kinds.CONTROLLER_REVISION: CONTROLLER_REVISIONS,
    kinds.PRIORITY_CLASS: PRIORITY_CLASSES,
    kinds.DISRUPTION_BUDGET: DISRUPTION_BUDGETS,
    kinds.RESOURCE_SLICE: RESOURCE_SLICES,
    kinds.DEVICE_CLASS: OTHERS,
    kinds.RESOURCE_CLAIM: RESOURCE_CLAIMS,
    kinds.RESOURCE_CLAIM_TEMPLATE: OTHERS,
    kinds.ROLE: DATED,
    kinds.CLUSTER_ROLE: DATED,
    kinds.ROLE_BINDING: BINDINGS,
    kinds.CLUSTER_ROLE_BINDING: BINDINGS,
}


def printer_of(kind: Kind[ApiObject]) -> Printer:
    return PRINTERS.get(kind, OTHERS)
