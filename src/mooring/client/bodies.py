"""The bodies of requests that carry no object: what to bind, to evict or to delete. Shared by both clients."""

from typing import Any


def binding(pod: str, *, namespace: str, uid: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction(pod: str, *, namespace: str, uid: str, grace_seconds: int | None) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": delete_options(uid=uid, grace_seconds=grace_seconds),
    }


def delete_options(
    *, uid: str = "", resource_version: str = "", grace_seconds: int | None = None, propagation: str = ""
) -> dict[str, Any]:
    """What is empty is left to the server."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if stated := {field: value for field, value in preconditions.items() if value}:
        options["preconditions"] = stated
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    return options
