"""Defaults of the small core kinds: namespaces, secrets, services."""

from base64 import b64encode
from typing import Final

from mooring.server.body import Body, meta, rows

#: The label every namespace carries, so that selectors can name namespaces.
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def default_namespace(obj: Body) -> None:
    if name := meta(obj).get("name"):
        meta(obj).setdefault("labels", {})[NAMESPACE_NAME] = name


def default_secret(obj: Body) -> None:
    """`stringData` is a convenience for writers: it is never stored, only what it stands for."""
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
            # What upstream derives from the address; where none is given, there is none to derive from.
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


def default_priority_class(obj: Body) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
