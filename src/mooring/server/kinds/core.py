"""Namespace, Node, ConfigMap, Secret, ServiceAccount, Service, Endpoints and Lease."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, duplicate, forbidden, required, too_long
from mooring.api.kinds import CONFIG_MAP, ENDPOINTS, LEASE, NAMESPACE, NODE, SECRET, SERVICE, SERVICE_ACCOUNT, Kind
from mooring.api.names import check_dns1123_label, check_label_value, check_qualified_name
from mooring.api.times import UNKNOWN
from mooring.server.encoding import is_deleting, meta, part, restore_field, rows
from mooring.server.kinds import columns, field_checks
from mooring.server.kinds.columns import AGE, NAME, NONE, Column, Json, joined, labels, objects_at, table, text, text_at
from mooring.server.kinds.field_checks import check_port, immutable_fields, not_negative, one_of, present, violations
from mooring.server.kinds.pod_spec import TAINT_EFFECTS
from mooring.server.kinds.rules import KindRules
from mooring.server.selection import selectable
from mooring.server.verbs.deletion import TERMINATING

#: Label of every namespace, so that selectors can name it.
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def default_namespace(obj: Body) -> None:
    if name := meta(obj).get("name"):
        meta(obj).setdefault("labels", {})[NAMESPACE_NAME] = name


def default_secret(obj: Body) -> None:
    """`stringData` is written to `data` and not stored."""
    if plain := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        data |= {key: b64encode(text.encode()).decode() for key, text in plain.items()}
    obj.setdefault("type", "Opaque")


def default_service(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if address := spec.get("clusterIP"):
            # kube-apiserver derives these from the address it assigns.
            spec.setdefault("clusterIPs", [address])
            spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in rows(spec, "ports"):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])


def default_endpoints(obj: Body) -> None:
    for subset in rows(obj, "subsets"):
        for port in rows(subset, "ports"):
            port.setdefault("protocol", "TCP")


_CONFIG_MAPS: Final = table(
    NAME,
    Column("Data", "Number of entries.", lambda config: _entries(config, "data") + _entries(config, "binaryData")),
    AGE,
)

_SECRETS: Final = table(
    NAME,
    Column("Type", "Type of the secret.", text("type")),
    Column("Data", "Number of entries.", lambda secret: _entries(secret, "data")),
    AGE,
)


def _entries(value: Json, field: str) -> int:
    return len(columns.object_at(value, field))


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _node_status(node: Json) -> str:
    ready = columns.conditions_at(node, "Ready")
    words = ["Ready" if text_at(condition, "status") == "True" else "NotReady" for condition in ready] or ["Unknown"]
    if columns.flag_at(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return joined(words)


def _roles(node: Json) -> str:
    labels = columns.object_at(node, "metadata", "labels")
    prefixed = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return joined(sorted((prefixed | {text_at(labels, _ROLE_LABEL)}) - {""}), empty=NONE)


def _address(type_: str) -> columns.CellReader:
    def read(node: Json) -> str:
        addresses = objects_at(node, "status", "addresses")
        return next((text_at(one, "address") for one in addresses if text_at(one, "type") == type_), NONE)

    return read


def _node_info(field: str, *, empty: str = UNKNOWN) -> columns.CellReader:
    return text("status", "nodeInfo", field, empty=empty)


_NODES: Final = table(
    NAME,
    Column("Status", "Whether the node is ready and schedulable.", _node_status),
    Column("Roles", "The roles of the node, from its labels.", _roles),
    AGE,
    Column("Version", "Version of the node's agent.", _node_info("kubeletVersion", empty="")),
    Column("Internal-IP", "The node's address inside the cluster.", _address("InternalIP"), wide=True),
    Column("External-IP", "The node's address outside the cluster.", _address("ExternalIP"), wide=True),
    Column("OS-Image", "The operating system.", _node_info("osImage"), wide=True),
    Column("Kernel-Version", "The kernel.", _node_info("kernelVersion"), wide=True),
    Column("Container-Runtime", "The container runtime.", _node_info("containerRuntimeVersion"), wide=True),
)

_NAMESPACES: Final = table(NAME, Column("Status", "Phase of the namespace.", text("status", "phase")), AGE)

_LEASES: Final = table(NAME, Column("Holder", "Identity of the holder.", text("spec", "holderIdentity")), AGE)

#: Addresses listed in a row before they are counted.
_MAX_LISTED_ADDRESSES: Final = 3


def _cluster_address(service: Json) -> str:
    addresses = columns.texts_at(service, "spec", "clusterIPs") or [text_at(service, "spec", "clusterIP")]
    return addresses[0] or NONE


def _external_address(service: Json) -> str:
    given = columns.texts_at(service, "spec", "externalIPs")
    match text_at(service, "spec", "type"):
        case "ExternalName":
            return text_at(service, "spec", "externalName")
        case "LoadBalancer":
            ingress = objects_at(service, "status", "loadBalancer", "ingress")
            found = {text_at(one, "ip") or text_at(one, "hostname") for one in ingress} - {""}
            return joined([*sorted(found), *given], empty="<pending>")
        case _:
            return joined(given, empty=NONE)


def _ports(service: Json) -> str:
    return joined((_port(port) for port in objects_at(service, "spec", "ports")), empty=NONE)


def _port(port: Json) -> str:
    number, on_node = columns.number_at(port, "port"), columns.number_at(port, "nodePort")
    numbers = f"{number}:{on_node}" if on_node else str(number)
    return f"{numbers}/{text_at(port, 'protocol') or 'TCP'}"


def _endpoints(value: Json) -> str:
    found = [address for subset in objects_at(value, "subsets") for address in _addresses(subset)]
    shown = joined(found[:_MAX_LISTED_ADDRESSES], empty=NONE if not objects_at(value, "subsets") else "")
    return f"{shown} + {len(found) - _MAX_LISTED_ADDRESSES} more..." if len(found) > _MAX_LISTED_ADDRESSES else shown


def _addresses(subset: Json) -> list[str]:
    hosts = [text_at(address, "ip") for address in objects_at(subset, "addresses")]
    ports = [columns.number_at(port, "port") for port in objects_at(subset, "ports")]
    if not ports:
        return hosts
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports for host in hosts]


_SERVICES: Final = table(
    NAME,
    Column("Type", "How the service is reached.", text("spec", "type")),
    Column("Cluster-IP", "The address inside the cluster.", _cluster_address),
    Column("External-IP", "The addresses outside the cluster.", _external_address),
    Column("Port(s)", "The ports the service listens on.", _ports),
    AGE,
    Column("Selector", "Selector of the service's pods.", labels("spec", "selector"), wide=True),
)

_ENDPOINTS: Final = table(NAME, Column("Endpoints", "The addresses and ports behind the service.", _endpoints), AGE)

#: Bytes of all values of a ConfigMap or Secret; kube-apiserver's limit.
MAX_DATA_BYTES: Final = 1024 * 1024

_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_DATA_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_HEADLESS: Final = "None"


def validate_data(obj: Body) -> Iterator[Cause]:
    """ConfigMaps and Secrets; values of a Secret count in base64."""
    size = 0
    for field in ("data", "binaryData"):
        for key, value in part(obj, field).items():
            size += len(value)
            if not _DATA_KEY.fullmatch(key) or key in (".", ".."):
                yield bad_value(f"{field}[{key}]", key, _DATA_KEY_RULE)
    if size > MAX_DATA_BYTES:
        yield too_long("", MAX_DATA_BYTES)


def validate_data_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_data(new)
    yield from immutable_fields(new, old, "type")
    if old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if new.get(field) != old.get(field):
                yield forbidden(field, "field is immutable when `immutable` is set")


def validate_service(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from one_of(spec, "spec", "type", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    yield from one_of(spec, "spec", "sessionAffinity", "ClientIP", "None")
    ports = rows(spec, "ports")
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != _HEADLESS:
        yield required("spec.ports")
    yield from field_checks.unique([p.get("name", "") for p in ports], "spec.ports", "name")
    for index, one in enumerate(ports):
        yield from check_port(one.get("port", 0), f"spec.ports[{index}].port")
        if isinstance(to := one.get("targetPort", one.get("port", 0)), int):
            yield from check_port(to, f"spec.ports[{index}].targetPort")
        yield from one_of(one, f"spec.ports[{index}]", "protocol", "SCTP", "TCP", "UDP")
        if len(ports) > 1:
            yield from present(one, f"spec.ports[{index}]", "name")


def validate_service_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_service(new)
    if part(old, "spec").get("clusterIP"):
        yield from immutable_fields(new, old, "spec.clusterIP")


def validate_lease(obj: Body) -> Iterator[Cause]:
    spec: Mapping[str, int] = part(obj, "spec")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield bad_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from not_negative(spec.get("leaseTransitions", 0), "spec.leaseTransitions")


def validate_namespace(obj: Body) -> Iterator[Cause]:
    yield from field_checks.validate_finalizers(part(obj, "spec").get("finalizers", []), "spec.finalizers")


def validate_namespace_status(new: Body, old: Body) -> Iterator[Cause]:
    """For the subresources `status` and `finalize`."""
    yield from validate_namespace(new)
    phase = part(new, "status").get("phase", "")
    if is_deleting(new) and phase != TERMINATING:
        yield bad_value("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
    if not is_deleting(new) and phase != "Active":
        yield bad_value("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")


def validate_node(obj: Body) -> Iterator[Cause]:
    yield from _taints(rows(obj, "spec", "taints"))
    yield from _validate_status(obj)


def validate_node_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from _taints(rows(new, "spec", "taints"))
    now, was = part(new, "spec"), part(old, "spec")
    for field in ("podCIDR", "podCIDRs"):
        if was.get(field) and now.get(field) != was[field]:
            yield forbidden(f"spec.{field}", 'node updates may not change podCIDR except from "" to valid')
    if was.get("providerID") and now.get("providerID") != was["providerID"]:
        verb = "modified" if now.get("providerID") else "cleared"
        yield bad_value("spec.providerID", None, f"field cannot be {verb} once set")


def _taints(taints: list[Body]) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        yield from violations(check_qualified_name, key, f"{path}.key")
        yield from violations(check_label_value, taint.get("value", ""), f"{path}.value")
        yield from one_of(taint, path, "effect", *TAINT_EFFECTS)
        if (key, effect) in seen:
            yield duplicate(path, f"{key}:{effect}")
        seen.add((key, effect))


def _validate_status(obj: Body) -> Iterator[Cause]:
    for field in ("capacity", "allocatable"):
        yield from field_checks.validate_amounts(part(obj, "status", field), f"status.{field}")


def _restore_namespace(new: Body, old: Body, subresource: str) -> None:
    """Only the `finalize` subresource changes `spec.finalizers`."""
    if not subresource:
        restore_field("finalizers", new["spec"], old["spec"])


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    NODE: KindRules(
        create=validate_node,
        update=validate_node_update,
        update_status=lambda new, old: _validate_status(new),
        # A kubelet registers its node together with the capacity: the only kind created with a status.
        initial_status=lambda obj, now: obj["status"],
        printer=_NODES,
        selectable=selectable({"spec.unschedulable": bool}, namespaced=False),
    ),
    NAMESPACE: KindRules(
        defaults=default_namespace,
        check_name=check_dns1123_label,
        create=validate_namespace,
        update_status=validate_namespace_status,
        initial_status=lambda obj, now: {"phase": "Active"},
        restore=_restore_namespace,
        printer=_NAMESPACES,
        selectable=selectable({"status.phase": str}, namespaced=False),
        deletion_returns_object=True,
    ),
    CONFIG_MAP: KindRules(create=validate_data, update=validate_data_update, printer=_CONFIG_MAPS),
    SECRET: KindRules(
        defaults=default_secret,
        create=validate_data,
        update=validate_data_update,
        printer=_SECRETS,
        selectable=selectable({"type": str}),
    ),
    SERVICE: KindRules(
        defaults=default_service,
        check_name=check_dns1123_label,
        create=validate_service,
        update=validate_service_update,
        printer=_SERVICES,
        selectable=selectable({"spec.clusterIP": str, "spec.type": str}),
        deletion_returns_object=True,
    ),
    ENDPOINTS: KindRules(defaults=default_endpoints, printer=_ENDPOINTS),
    SERVICE_ACCOUNT: KindRules(deletion_returns_object=True),
    LEASE: KindRules(create=validate_lease, printer=_LEASES),
}
