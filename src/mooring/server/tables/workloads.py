"""Workloads, and what stands in front of them: StatefulSets and Services."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer
from mooring.server.tables.reading import NONE, Json, age, joined, name, number, part, parts, text, texts


def _stateful_set_cells(workload: Json, now: float) -> tuple[Cell, ...]:
    containers = parts(workload, "spec", "template", "spec", "containers")
    # A set that does not say how many is one of one.
    wanted = number(workload, "spec", "replicas", default=1)
    return (
        name(workload),
        f"{number(workload, 'status', 'readyReplicas')}/{wanted}",
        age(workload, now),
        joined(text(container, "name") for container in containers),
        joined(text(container, "image") for container in containers),
    )


def _service_cells(service: Json, now: float) -> tuple[Cell, ...]:
    selector = part(service, "spec", "selector")
    addresses = texts(service, "spec", "clusterIPs") or [text(service, "spec", "clusterIP")]
    return (
        name(service),
        text(service, "spec", "type"),
        addresses[0] or NONE,
        _external_address(service),
        joined((_port(port) for port in parts(service, "spec", "ports")), empty=NONE),
        age(service, now),
        joined((f"{key}={text(selector, key)}" for key in sorted(selector)), empty=NONE),
    )


def _external_address(service: Json) -> str:
    given = texts(service, "spec", "externalIPs")
    match text(service, "spec", "type"):
        case "ExternalName":
            return text(service, "spec", "externalName")
        case "LoadBalancer":
            ingress = parts(service, "status", "loadBalancer", "ingress")
            found = {text(one, "ip") or text(one, "hostname") for one in ingress} - {""}
            return joined([*sorted(found), *given], empty="<pending>")
        case _:
            return joined(given, empty=NONE)


def _port(port: Json) -> str:
    number_on_node = number(port, "nodePort")
    numbers = f"{number(port, 'port')}:{number_on_node}" if number_on_node else str(number(port, "port"))
    return f"{numbers}/{text(port, 'protocol') or 'TCP'}"


STATEFUL_SETS: Final = Printer(
    columns=(
        NAME,
        Column("Ready", description="Pods that are ready, of all that are wanted."),
        AGE,
        Column("Containers", description="Names of the containers.", priority=WIDE),
        Column("Images", description="Images of the containers.", priority=WIDE),
    ),
    cells=_stateful_set_cells,
)

SERVICES: Final = Printer(
    columns=(
        NAME,
        Column("Type", description="How the service is reached."),
        Column("Cluster-IP", description="The address inside the cluster."),
        Column("External-IP", description="The addresses outside the cluster."),
        Column("Port(s)", description="The ports the service listens on."),
        AGE,
        Column("Selector", description="Which pods the service leads to.", priority=WIDE),
    ),
    cells=_service_cells,
)
