"""The registry: which kind is printed how. Kinds without a row show name and age."""

from collections.abc import Mapping
from typing import Final

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.tables.columns import Printer
from mooring.server.tables.configuration import CONFIG_MAPS, OTHERS, SECRETS
from mooring.server.tables.events import EVENTS
from mooring.server.tables.nodes import LEASES, NAMESPACES, NODES
from mooring.server.tables.pods import PODS
from mooring.server.tables.volumes import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
)
from mooring.server.tables.workloads import SERVICES, STATEFUL_SETS

PRINTERS: Final[Mapping[Kind[ApiObject], Printer]] = {
    kinds.POD: PODS,
    kinds.NODE: NODES,
    kinds.VOLUME: VOLUMES,
    kinds.CLAIM: CLAIMS,
    kinds.NAMESPACE: NAMESPACES,
    kinds.EVENT: EVENTS,
    kinds.CONFIG_MAP: CONFIG_MAPS,
    kinds.SECRET: SECRETS,
    kinds.SERVICE_ACCOUNT: OTHERS,
    kinds.SERVICE: SERVICES,
    kinds.STORAGE_CLASS: STORAGE_CLASSES,
    kinds.CSI_NODE: CSI_NODES,
    kinds.CSI_DRIVER: CSI_DRIVERS,
    kinds.STORAGE_CAPACITY: STORAGE_CAPACITIES,
    kinds.VOLUME_ATTACHMENT: VOLUME_ATTACHMENTS,
    kinds.STATEFUL_SET: STATEFUL_SETS,
    kinds.LEASE: LEASES,
}


def printer_of(kind: Kind[ApiObject]) -> Printer:
    return PRINTERS.get(kind, OTHERS)
