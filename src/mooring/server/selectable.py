"""What a selector can look at: labels for every kind, and the fields each kind offers to field selectors.

Each kind has the leanest view that holds its fields; decoding one skips the rest of the object. The fields are
those of kube-apiserver 1.36, which refuses all others, and so do we. What is looked at is the form in which objects
are stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.api.kinds import EVENT, NAMESPACE, NEW_EVENT, NODE, POD, REPLICATION_CONTROLLER, SECRET, SERVICE, Kind
from mooring.api.views.meta import ObjectReference

Reader = Callable[[Any], str]


class _View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Options the views below share."""


class _Meta(_View, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class Selected(_View, frozen=True, gc=False):
    """What selectors see of a kind without fields of its own."""

    metadata: _Meta = _Meta()


class _PodSpec(_View, frozen=True, gc=False):
    node_name: str = ""
    restart_policy: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    host_network: bool = False


class _PodAddress(_View, frozen=True, gc=False):
    ip: str = ""


class _PodStatus(_View, frozen=True, gc=False):
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[_PodAddress, ...] = msgspec.field(name="podIPs", default=())
    nominated_node_name: str = ""


class _Pod(Selected, frozen=True, gc=False):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _NodeSpec(_View, frozen=True, gc=False):
    unschedulable: bool = False


class _Node(Selected, frozen=True, gc=False):
    spec: _NodeSpec = _NodeSpec()


class _NamespaceStatus(_View, frozen=True, gc=False):
    phase: str = ""


class _Namespace(Selected, frozen=True, gc=False):
    status: _NamespaceStatus = _NamespaceStatus()


class _Secret(Selected, frozen=True, gc=False):
    type: str = ""


class _ServiceSpec(_View, frozen=True, gc=False):
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    type: str = ""


class _Service(Selected, frozen=True, gc=False):
    spec: _ServiceSpec = _ServiceSpec()


class _EventSource(_View, frozen=True, gc=False):
    component: str = ""


class _Event(Selected, frozen=True, gc=False):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    type: str = ""
    reporting_component: str = ""
    source: _EventSource = _EventSource()


class _ReplicationStatus(_View, frozen=True, gc=False):
    replicas: int = 0


class _ReplicationController(Selected, frozen=True, gc=False):
    status: _ReplicationStatus = _ReplicationStatus()


@dataclass(frozen=True)
class Selectable:
    """The view a kind's selectors look at, and how to read each field from it."""

    view: type[Selected]
    readers: Mapping[str, Reader]
    #: How an unknown field is refused; upstream words it differently for kinds without fields of their own.
    refusal: str = "field label not supported: {0}"


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _address(pod: _Pod) -> str:
    """The pod's first address, whichever of the two ways of saying it was used; upstream shows it under both names."""
    return pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip


_NAME: Final[Mapping[str, Reader]] = {"metadata.name": lambda o: o.metadata.name}
_NAMES: Final[Mapping[str, Reader]] = {**_NAME, "metadata.namespace": lambda o: o.metadata.namespace}

_PLAIN: Final = Selectable(
    Selected,
    _NAMES,
    '"{0}" is not a known field selector: only "metadata.name", "metadata.namespace"',
)

#: What an event is about.
_REFERENCE: Final[Mapping[str, Reader]] = {
    "kind": lambda o: o.involved_object.kind,
    "namespace": lambda o: o.involved_object.namespace,
    "name": lambda o: o.involved_object.name,
    "uid": lambda o: o.involved_object.uid,
    "apiVersion": lambda o: o.involved_object.api_version,
    "resourceVersion": lambda o: o.involved_object.resource_version,
    "fieldPath": lambda o: o.involved_object.field_path,
}

_OWN: Final[Mapping[Kind[Any], Selectable]] = {
    POD: Selectable(
        _Pod,
        {
            **_NAMES,
            "spec.nodeName": lambda o: o.spec.node_name,
            "spec.host": lambda o: o.spec.node_name,
            "spec.restartPolicy": lambda o: o.spec.restart_policy,
            "spec.schedulerName": lambda o: o.spec.scheduler_name,
            "spec.serviceAccountName": lambda o: o.spec.service_account_name,
            "spec.hostNetwork": lambda o: _truth(o.spec.host_network),
            "status.phase": lambda o: o.status.phase,
            "status.podIP": _address,
            "status.podIPs": _address,
            "status.nominatedNodeName": lambda o: o.status.nominated_node_name,
        },
    ),
    NODE: Selectable(_Node, {**_NAME, "spec.unschedulable": lambda o: _truth(o.spec.unschedulable)}),
    NAMESPACE: Selectable(_Namespace, {**_NAME, "status.phase": lambda o: o.status.phase}),
    SECRET: Selectable(_Secret, {**_NAMES, "type": lambda o: o.type}),
    SERVICE: Selectable(
        _Service,
        {**_NAMES, "spec.clusterIP": lambda o: o.spec.cluster_ip, "spec.type": lambda o: o.spec.type},
    ),
    EVENT: Selectable(
        _Event,
        {
            **_NAMES,
            **{f"involvedObject.{field}": reader for field, reader in _REFERENCE.items()},
            "reason": lambda o: o.reason,
            "reportingComponent": lambda o: o.reporting_component,
            "source": lambda o: o.source.component or o.reporting_component,
            "type": lambda o: o.type,
        },
    ),
    NEW_EVENT: Selectable(
        _Event,
        {
            **_NAMES,
            **{f"regarding.{field}": reader for field, reader in _REFERENCE.items()},
            "reason": lambda o: o.reason,
            "reportingController": lambda o: o.reporting_component,
            "type": lambda o: o.type,
        },
    ),
    REPLICATION_CONTROLLER: Selectable(
        _ReplicationController, {**_NAMES, "status.replicas": lambda o: str(o.status.replicas)}
    ),
}


def selectable(kind: Kind[Any]) -> Selectable:
    return _OWN.get(kind, _PLAIN)
