"""Nodes, namespaces and leases: what the cluster itself consists of."""

from typing import Final

from mooring.api.durations import UNKNOWN
from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer
from mooring.server.tables.reading import NONE, Json, age, flag, joined, name, part, parts, text

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _cells(node: Json, now: float) -> tuple[Cell, ...]:
    info = part(node, "status", "nodeInfo")
    return (
        name(node),
        _status(node),
        joined(sorted(_roles(node)), empty=NONE),
        age(node, now),
        text(info, "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text(info, "osImage") or UNKNOWN,
        text(info, "kernelVersion") or UNKNOWN,
        text(info, "containerRuntimeVersion") or UNKNOWN,
    )


def _status(node: Json) -> str:
    ready = [condition for condition in parts(node, "status", "conditions") if text(condition, "type") == "Ready"]
    words = ["Ready" if text(condition, "status") == "True" else "NotReady" for condition in ready] or ["Unknown"]
    if flag(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return joined(words)


def _roles(node: Json) -> set[str]:
    labels = part(node, "metadata", "labels")
    prefixed = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return (prefixed | {text(labels, _ROLE_LABEL)}) - {""}


def _address(node: Json, type_: str) -> str:
    addresses = parts(node, "status", "addresses")
    return next((text(one, "address") for one in addresses if text(one, "type") == type_), NONE)


NODES: Final = Printer(
    columns=(
        NAME,
        Column("Status", description="Whether the node is ready and takes pods."),
        Column("Roles", description="The roles of the node, from its labels."),
        AGE,
        Column("Version", description="Version of the node's agent."),
        Column("Internal-IP", description="The node's address inside the cluster.", priority=WIDE),
        Column("External-IP", description="The node's address outside the cluster.", priority=WIDE),
        Column("OS-Image", description="The operating system.", priority=WIDE),
        Column("Kernel-Version", description="The kernel.", priority=WIDE),
        Column("Container-Runtime", description="The container runtime.", priority=WIDE),
    ),
    cells=_cells,
)

NAMESPACES: Final = Printer(
    columns=(NAME, Column("Status", description="Whether the namespace is in use or going."), AGE),
    cells=lambda namespace, now: (name(namespace), text(namespace, "status", "phase"), age(namespace, now)),
)

LEASES: Final = Printer(
    columns=(NAME, Column("Holder", description="Who holds the lease."), AGE),
    cells=lambda lease, now: (name(lease), text(lease, "spec", "holderIdentity"), age(lease, now)),
)
