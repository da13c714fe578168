"""Whether a gang that waits could be placed: every node for every member, every source for every claim (invariant I12).

Reads API objects and the sizes of pools only, and asks neither the scheduler nor `volumes.group`. Small clusters: the
number of choices is the product of nodes and volumes over all members.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api import quantity, well_known
from mooring.api.pod_requirements import CPU, requests_of
from mooring.api.views.meta import Amount
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from support.simulation.invariants import Facts, reaches

GI: Final = 2**30


class FreeResources(NamedTuple):
    """What is free. Changed by the search, and as before when it returns."""

    #: By node, in thousandths.
    cpu: dict[str, int]
    #: Existing volumes by name.
    volumes: dict[str, Volume]
    #: By node, in bytes, of the class that provisions there, and how many more of its volumes the node takes.
    pools: dict[str, int]
    slots: dict[str, int]


class GangPlaces:
    """Tries all places of members on the nodes of a cluster."""

    def __init__(self, facts: Facts, pools: Mapping[str, int], storage_class: str, *, limit: int = 0) -> None:
        """`pools` in GiB by node, of volumes of `storage_class`; `limit` of these on a node, 0 for none."""
        self._facts = facts
        self._class = storage_class
        self._free = FreeResources(self._free_cpu(), self._free_volumes(), self._free_pools(pools), self._slots(limit))

    def could_run(self, group: PodGroup) -> bool:
        """Whether enough waiting members of the group have a place together; one, where its quorum runs already."""
        pods = [pod for pod in self._facts.pods.values() if pod.group_key == group.key and not pod.finished]
        waiting = [pod for pod in pods if not pod.spec.node_name]
        placed = [pod.spec.node_name for pod in pods if pod.spec.node_name]
        need = max(group.min_count - len(placed), 1)
        return any(self._place(waiting, need, nodes) for nodes in self._domains(group.topology_key, placed))

    def _domains(self, key: str, placed: Sequence[str]) -> Iterator[list[str]]:
        names = sorted(self._facts.nodes)
        if not key:
            yield names
            return
        values = {name: self._facts.nodes[name].metadata.labels.get(key, "") for name in names}
        for value in sorted(set(values.values()) - {""}):
            if all(values.get(name) == value for name in placed):
                yield [name for name in names if values[name] == value]

    def _place(self, waiting: Sequence[Pod], need: int, nodes: Sequence[str]) -> bool:
        if need <= 0:
            return True
        if len(waiting) < need:
            return False
        pod, others = waiting[0], waiting[1:]
        cpu = requests_of(pod).amounts.get(CPU, 0)
        claims = [self._facts.claims.get(key) for key in pod.claim_keys]
        for node in nodes if all(claim is not None for claim in claims) else ():
            if self._free.cpu[node] < cpu:
                continue
            self._free.cpu[node] -= cpu
            found = self._serve([one for one in claims if one is not None], node, others, need, nodes)
            self._free.cpu[node] += cpu
            if found:
                return True
        return self._place(others, need, nodes)

    def _serve(
        self, claims: Sequence[Claim], node: str, others: Sequence[Pod], need: int, nodes: Sequence[str]
    ) -> bool:
        """Give a claim each of its sources in turn, then the next one; after the last, place the other members."""
        if not claims:
            return self._place(others, need - 1, nodes)
        claim, rest, size = claims[0], claims[1:], _bytes(claims[0].request)
        if claim.spec.volume_name:
            volume = self._facts.volumes.get(claim.spec.volume_name)
            is_there = volume is not None and reaches(self._facts.nodes[node], volume)
            taken = int(claim.storage_class == self._class)
            self._free.slots[node] -= taken
            found = is_there and self._free.slots[node] >= 0 and self._serve(rest, node, others, need, nodes)
            self._free.slots[node] += taken
            return found
        for name, volume in sorted(self._free.volumes.items()):
            suits = volume.storage_class == claim.storage_class and _bytes(volume.size) >= size
            if suits and reaches(self._facts.nodes[node], volume):
                del self._free.volumes[name]
                found = self._serve(rest, node, others, need, nodes)
                self._free.volumes[name] = volume
                if found:
                    return True
        fits = self._free.pools.get(node, 0) >= size and self._free.slots[node] > 0
        if claim.storage_class == self._class and fits:
            self._free.pools[node] -= size
            self._free.slots[node] -= 1
            found = self._serve(rest, node, others, need, nodes)
            self._free.pools[node] += size
            self._free.slots[node] += 1
            return found
        return False

    def _free_cpu(self) -> dict[str, int]:
        free = {name: quantity.to_milli(node.status.allocatable[CPU]) for name, node in self._facts.nodes.items()}
        for pod in self._facts.pods.values():
            if pod.spec.node_name in free and not pod.finished:
                free[pod.spec.node_name] -= requests_of(pod).amounts.get(CPU, 0)
        return free

    def _free_volumes(self) -> dict[str, Volume]:
        return {
            name: volume
            for name, volume in self._facts.volumes.items()
            if volume.spec.claim_ref is None and not volume.deleting
        }

    def _free_pools(self, pools: Mapping[str, int]) -> dict[str, int]:
        return {node: size * GI - self.provisioned(self._facts, node) for node, size in pools.items()}

    def _slots(self, limit: int) -> dict[str, int]:
        used = {
            (pod.spec.node_name, claim.spec.volume_name)
            for pod in self._facts.pods.values()
            if pod.spec.node_name and not pod.finished
            for claim in self._facts.claims_of(pod)
            if claim.storage_class == self._class
        }
        most = limit or 10**6
        return {name: most - sum(node == name for node, _ in used) for name in self._facts.nodes}

    @staticmethod
    def provisioned(facts: Facts, node: str) -> int:
        """Bytes of the volumes that were provisioned for a node."""
        there = facts.nodes.get(node)
        return sum(
            _bytes(volume.size)
            for volume in facts.volumes.values()
            if there is not None and well_known.PROVISIONED_BY in volume.metadata.annotations and reaches(there, volume)
        )


def _bytes(size: Amount) -> int:
    return quantity.to_bytes(size)
