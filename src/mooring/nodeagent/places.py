"""Who has a place on which node, and what that takes from the node.

Pure. A pod has its place from the moment it is admitted until it ends or is gone, whether or not the server shows it
yet: pods that arrive together must not all be let in. What one pod takes is added up once.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from mooring.api.pod_requests import PODS, requests_of
from mooring.api.views.pod import Pod

#: A port without an address is taken on every address.
ANY_ADDRESS: Final = "0.0.0.0"  # the name of the address, nothing listens


class HostPort(NamedTuple):
    """A port of the node itself that a container wants."""

    address: str
    protocol: str
    number: int

    def clashes(self, other: "HostPort") -> bool:
        if (self.protocol, self.number) != (other.protocol, other.number):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


class Taken(NamedTuple):
    node: str
    amounts: Mapping[str, int]
    ports: tuple[HostPort, ...]


def needs(pod: Pod) -> Mapping[str, int]:
    """What a pod takes of a node, in the units of `pod_requests`; every pod takes one of `pods`."""
    return {PODS: 1, **requests_of(pod).amounts}


def host_ports(pod: Pod) -> Iterator[HostPort]:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or ANY_ADDRESS, port.protocol, port.host_port)


class Places:
    """By uid: a pod made again under its name is another one."""

    def __init__(self) -> None:
        self._taken: dict[str, Taken] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._ports: dict[str, dict[str, tuple[HostPort, ...]]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._taken

    def take(self, pod: Pod, wanted: Mapping[str, int] | None = None) -> None:
        """`wanted` is what the pod needs, if somebody has added it up. Asking again changes nothing. Raises
        QuantityError for an amount that is none."""
        if pod.uid in self._taken:
            return
        amounts = needs(pod) if wanted is None else wanted
        taken = self._taken[pod.uid] = Taken(pod.spec.node_name, amounts, tuple(host_ports(pod)))
        used = self._used.setdefault(taken.node, {})
        for name, amount in taken.amounts.items():
            used[name] = used.get(name, 0) + amount
        if taken.ports:
            self._ports.setdefault(taken.node, {})[pod.uid] = taken.ports

    def leave(self, uid: str) -> None:
        """The pod ended or is gone; one that had no place had nothing to give back."""
        taken = self._taken.pop(uid, None)
        if taken is None:
            return
        used = self._used[taken.node]
        for name, amount in taken.amounts.items():
            used[name] -= amount
            if not used[name]:
                del used[name]
        if not used:
            del self._used[taken.node]
        if taken.ports:
            del self._ports[taken.node][uid]
            if not self._ports[taken.node]:
                del self._ports[taken.node]

    def used(self, node: str) -> Mapping[str, int]:
        return self._used.get(node, {})

    def ports(self, node: str) -> Collection[tuple[HostPort, ...]]:
        return self._ports.get(node, {}).values()
