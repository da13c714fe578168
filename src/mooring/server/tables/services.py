"""Services, and the addresses behind them."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer
from mooring.server.tables.reading import NONE, Json, age, joined, name, number, part, parts, text, texts

#: How many addresses a row names before it counts.
_SHOWN: Final = 3


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


def _endpoints(value: Json) -> str:
    found = [address for subset in parts(value, "subsets") for address in _addresses(subset)]
    shown = joined(found[:_SHOWN], empty=NONE if not parts(value, "subsets") else "")
    return f"{shown} + {len(found) - _SHOWN} more..." if len(found) > _SHOWN else shown


def _addresses(subset: Json) -> list[str]:
    hosts = [text(address, "ip") for address in parts(subset, "addresses")]
    ports = [number(port, "port") for port in parts(subset, "ports")]
    if not ports:
        return hosts
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for port in ports for host in hosts]


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

ENDPOINTS: Final = Printer(
    columns=(NAME, Column("Endpoints", description="The addresses and ports behind the service."), AGE),
    cells=lambda value, now: (name(value), _endpoints(value), age(value, now)),
)
