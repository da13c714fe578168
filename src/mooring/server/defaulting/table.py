"""Which kinds have defaults."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.kinds import (
    CLAIM,
    CLUSTER_ROLE_BINDING,
    CSI_DRIVER,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINTS,
    NAMESPACE,
    POD,
    POD_TEMPLATE,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from mooring.server.body import Body
from mooring.server.defaulting.access import default_binding
from mooring.server.defaulting.claim import default_claim, default_storage_class, default_volume
from mooring.server.defaulting.core import (
    default_endpoints,
    default_namespace,
    default_priority_class,
    default_secret,
    default_service,
)
from mooring.server.defaulting.driver import default_driver
from mooring.server.defaulting.pod import default_pod
from mooring.server.defaulting.workload import (
    default_daemon_set,
    default_deployment,
    default_pod_template,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
)

_DEFAULTS: Final[Mapping[Kind[Any], Callable[[Body], None]]] = {
    POD: default_pod,
    CLAIM: default_claim,
    VOLUME: default_volume,
    STORAGE_CLASS: default_storage_class,
    CSI_DRIVER: default_driver,
    NAMESPACE: default_namespace,
    SECRET: default_secret,
    SERVICE: default_service,
    STATEFUL_SET: default_stateful_set,
    DEPLOYMENT: default_deployment,
    REPLICA_SET: default_replica_set,
    DAEMON_SET: default_daemon_set,
    REPLICATION_CONTROLLER: default_replication_controller,
    POD_TEMPLATE: default_pod_template,
    PRIORITY_CLASS: default_priority_class,
    ENDPOINTS: default_endpoints,
    ROLE_BINDING: default_binding,
    CLUSTER_ROLE_BINDING: default_binding,
}


def fill_defaults(kind: Kind[Any], obj: Body) -> None:
    """Completes the object in place."""
    if fill := _DEFAULTS.get(kind):
        fill(obj)
