"""Random clusters and changes, predicted by `mooring simulate` from a listing and applied to a running cluster.

By default the running cluster is the simulated one, which has the real node agent, driver, publisher and garbage
collector.
"""

import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
import pytest
from structlog.testing import capture_logs

from mooring.api import quantity, well_known
from mooring.api.kinds import BY_KIND, DEPLOYMENT, LEASE, NODE, POD, STATEFUL_SET, STORAGE_CAPACITY, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.cluster.bootstrap import Layout, local_volume
from mooring.hostpath.records import DRIVER_NAME
from mooring.nodeagent.node_objects import NodeTemplate, registration
from mooring.scheduler.framework import cycle
from mooring.scheduler.snapshot import resources
from mooring.volumes.topology import NodeSet, mask_of
from mooring.whatif.additions import Addition
from mooring.whatif.inventory import KINDS, Inventory
from mooring.whatif.question import WhatIfQuestion, scaling
from mooring.whatif.run import answer
from support.builders import Body, claim_body, class_body, pod_body
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.storage import HostpathStorage

GI: Final = 2**30
#: Capacity of each node in GiB: small, so that many pods are pending.
FAST: Final = 12
SLOW: Final = 25
#: Pool and kind of each class, as `mooring up` has them.
CLASSES: Final = {
    "fast": {"pool": "fast"},
    "slow": {"pool": "slow"},
    "mirrored": {"pool": "slow", "kind": "mirrored"},
}
#: CPUs of nodes: different enough that few nodes have equal scores.
CPUS: Final = (4, 7, 11, 16)
TEMPLATE: Final = "node-1"
ADDED: Final = f"{TEMPLATE}-new-1"
#: Simulated seconds: longer than any backoff, shorter than the five minutes after which all pods are tried again.
SETTLE: Final = 150.0


class RunningCluster(Protocol):
    """The cluster to which changes are applied."""

    @property
    def client(self) -> Client: ...

    async def listed(self) -> list[Body]:
        """All objects that `mooring simulate` reads, as kubectl would print them."""
        ...

    async def settle(self) -> None:
        """Wait until the cluster has converged."""
        ...


class Change(NamedTuple):
    """A change as flags of `mooring simulate`, and as an operation on the cluster."""

    what: str
    ask: Callable[[Inventory], WhatIfQuestion]
    do: Callable[["RunningCluster"], Awaitable[None]]


class State(NamedTuple):
    """What is compared: number of pods by workload and node ("" for none), free capacity by class and segment, and
    number of volumes.
    """

    pods: Counter[tuple[str, str]]
    capacity: dict[tuple[str, str], str]
    volumes: int


class Case(NamedTuple):
    """One change: the listed cluster before, and after."""

    change: Change
    before: Sequence[Body]
    after: Sequence[Body]


class Drawn:
    """A cluster drawn from a seed: its layout, and its states with one change after the other."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"predictions {seed}")
        self.layout = Layout(nodes=self._rng.randint(2, 4), zones=2, local_volumes=self._rng.randint(0, 2))
        self.rollback = self._rng.random() < 0.5

    async def cases(self, cluster: RunningCluster, changes: int, *, joining: bool = True) -> list[Case]:
        """The cluster has nodes and classes already; without `joining` no node can be added to it."""
        rng = self._rng
        for row, cpus in zip(self.layout.rows(), rng.sample(CPUS, self.layout.nodes), strict=True):
            await _resize(cluster.client, row.name, cpus)
        for number in range(rng.randint(2, 4)):
            await _create(cluster.client, *_workload(rng, f"{number}"))
        await cluster.settle()
        found = []
        for number in range(changes):
            before = await cluster.listed()
            change = _change(rng, before, self.layout, number, joining=joining)
            await change.do(cluster)
            await cluster.settle()
            found.append(Case(change, before, await cluster.listed()))
        return found


class _Simulated:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.client: Client = cluster.client

    async def listed(self) -> list[Body]:
        found: list[Body] = []
        for kind in (*KINDS, LEASE):
            records = (await self._cluster.store.list(kind.store_prefix())).records
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            found += [head | msgspec.json.decode(record.value) for record in records]
        return found

    async def settle(self) -> None:
        await self._cluster.clock.sleep(SETTLE)


def cases(seed: int, changes: int) -> list[Case]:
    """The cluster of the seed and its changes, in the simulated cluster."""
    drawn = Drawn(seed)
    storage = HostpathStorage(drawn.layout, rollback=drawn.rollback, joining=[ADDED], fast=FAST * GI, slow=SLOW * GI)

    async def scenario(cluster: SimulatedCluster) -> list[Case]:
        await _create(cluster.client, storage.objects()[0], *_classes())
        return await drawn.cases(_Simulated(cluster), changes)

    return simulate(scenario, layout=drawn.layout, seed=seed, extra_components=storage.extra_components)


def predicted(case: Case) -> State:
    inventory = Inventory()
    for body in case.before:
        inventory.add(copy.deepcopy(body))
    result = answer(case.change.ask(inventory))
    pods = {_key(body): body["spec"].get("nodeName", "") for body in _of_kind(case.before, POD)}
    for key in result.difference.pods_removed:
        del pods[key]
    pods |= {each.pod: each.node for each in result.placements}
    pods |= {each.pod: "" for each in result.pending}
    made, gone = len(result.difference.volumes_made), len(result.difference.volumes_removed)
    return State(
        _counted(pods),
        {(each.storage_class, _place(each.segment)): each.after or "" for each in result.capacity},
        len(_of_kind(case.before, VOLUME)) + made - gone,
    )


def happened(case: Case) -> State:
    return State(
        _counted({_key(body): body["spec"].get("nodeName", "") for body in _of_kind(case.after, POD)}),
        {
            (body["storageClassName"], _place(body["nodeTopology"]["matchLabels"])): body["capacity"]
            for body in _of_kind(case.after, STORAGE_CAPACITY)
        },
        len(_of_kind(case.after, VOLUME)),
    )


def waiting(case: Case) -> int:
    """Pods that were pending before the change."""
    return sum(not body["spec"].get("nodeName") for body in _of_kind(case.before, POD))


class Draws:
    """Counts how often the scheduler chose randomly between nodes with equal scores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        best_two = cycle._best_two

        def counted(totals: resources.Vector, feasible: NodeSet, rng: random.Random) -> tuple[int, int | None]:
            among = mask_of(feasible, len(totals))
            self.count += int(np.count_nonzero(among & (totals == totals[among].max())) > 1)
            return best_two(totals, feasible, rng)

        monkeypatch.setattr(cycle, "_best_two", counted)


def compare(case: Case, draws: Draws) -> bool:
    """Whether the prediction was exact; fails where it should have been.

    Two choices may differ: which of several nodes with equal scores is selected, and which of several pods that were
    pending before is tried first. If only nodes were chosen randomly, the same pods run, with the same total free
    capacity.
    """
    with capture_logs():
        expected = predicted(case)
    after = happened(case)
    if expected == after:
        return True
    waited = waiting(case)
    assert draws.count or waited > 1, _differences(case, expected, after)
    if waited < 2:
        assert _names(expected) == _names(after), _differences(case, expected, after)
        assert _totals(expected) == _totals(after), _differences(case, expected, after)
    return False


def _names(state: State) -> Counter[tuple[str, bool]]:
    found: Counter[tuple[str, bool]] = Counter()
    for (name, node), count in state.pods.items():
        found[name, bool(node)] += count
    return found


def _totals(state: State) -> Counter[str]:
    found: Counter[str] = Counter()
    for (storage_class, _), amount in state.capacity.items():
        found[storage_class] += quantity.to_bytes(amount)
    return found


def _differences(case: Case, expected: State, after: State) -> str:
    capacities = {
        key: (expected.capacity.get(key), after.capacity.get(key))
        for key in expected.capacity.keys() | after.capacity.keys()
    }
    differing = {key: both for key, both in sorted(capacities.items()) if both[0] != both[1]}
    return "\n".join(
        (
            case.change.what,
            f"pods predicted only: {dict(expected.pods - after.pods)}",
            f"pods that happened only: {dict(after.pods - expected.pods)}",
            f"capacity predicted and actual: {differing}",
            f"volumes predicted and real: {expected.volumes}, {after.volumes}",
        )
    )


def _counted(nodes: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Pods of a Deployment are equal, whatever their names."""
    names = [key.partition("/")[2] for key in nodes]
    workloads = [name.rsplit("-", 2)[0] if name.startswith("deploy") else name for name in names]
    return Counter(zip(workloads, nodes.values(), strict=True))


def _key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _place(labels: Mapping[str, str]) -> str:
    return ",".join(sorted(labels.values()))


def _of_kind(bodies: Sequence[Body], kind: Kind[ApiObject]) -> list[Body]:
    return [body for body in bodies if body["kind"] == kind.kind]


async def _create(client: Client, *bodies: Body) -> None:
    for body in bodies:
        kind = BY_KIND[body["apiVersion"], body["kind"]]
        await client.create(kind, body, namespace="default" if kind.namespaced else "")


def _classes() -> list[Body]:
    return [
        class_body(
            name=name, provisioner=DRIVER_NAME, parameters=given, annotations={well_known.CAPACITY_POOL: given["pool"]}
        )
        for name, given in CLASSES.items()
    ]


def _claim_spec(rng: random.Random, classes: Sequence[str]) -> Body:
    chosen = rng.choice(classes)
    size = rng.choice((3, 8)) if chosen == "local" else rng.randint(1, 6)
    return claim_body(storage_class=chosen, size=f"{size}Gi")["spec"]


def _pod_spec(rng: random.Random, volumes: Sequence[Body] = ()) -> Body:
    cpu = rng.choice(("500m", "1", "1700m", "3"))
    spec: Body = pod_body(requests={"cpu": cpu, "memory": "1Gi"}, volumes=volumes)["spec"]
    return spec


def _workload(rng: random.Random, name: str) -> list[Body]:
    """A StatefulSet, a Deployment with ephemeral volumes, or a pod with claims."""
    match rng.choice(("set", "set", "deploy", "pod")):
        case "set":
            return [_stateful_set(rng, f"set-{name}")]
        case "deploy":
            return [_deployment(rng, f"deploy-{name}")]
        case _:
            count = rng.randint(0, 2)
            specs = [_claim_spec(rng, ("fast", "slow", "mirrored", "local")) for _ in range(count)]
            claims = [claim_body(name=f"pod-{name}-{n}") | {"spec": spec} for n, spec in enumerate(specs)]
            names = [each["metadata"]["name"] for each in claims]
            pod = pod_body(name=f"pod-{name}", claims=names, requests={"cpu": "700m"})
            return [*claims, pod]


def _stateful_set(rng: random.Random, name: str) -> Body:
    templates = [
        {"metadata": {"name": f"data{number}"}, "spec": _claim_spec(rng, ("fast", "slow", "mirrored", "local"))}
        for number in range(rng.randint(0, 2))
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": rng.randint(1, 4),
            "serviceName": name,
            "podManagementPolicy": rng.choice(("OrderedReady", "Parallel")),
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": rng.choice(("Delete", "Retain"))},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": _pod_spec(rng)},
            "volumeClaimTemplates": templates,
        },
    }


def _deployment(rng: random.Random, name: str) -> Body:
    volumes = [
        {
            "name": "scratch",
            "ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec(rng, ("fast", "slow", "mirrored"))}},
        }
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": rng.randint(1, 4),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": _pod_spec(rng, volumes[: rng.randint(0, 1)]),
            },
        },
    }


def _change(rng: random.Random, before: Sequence[Body], layout: Layout, number: int, *, joining: bool) -> Change:
    sets = [*_of_kind(before, STATEFUL_SET), *_of_kind(before, DEPLOYMENT)]
    names = {body["metadata"]["name"] for body in _of_kind(before, NODE)}
    open_nodes = [each for each in _of_kind(before, NODE) if not each["spec"].get("unschedulable")]
    kinds = ["new", *(["scale", "scale", "scale"] if sets else ()), *(["drain"] if len(open_nodes) > 1 else ())]
    match rng.choice([*kinds, *(["add"] if joining and ADDED not in names else ())]):
        case "scale":
            return _scaling(rng.choice(sets), rng.randint(0, 6))
        case "drain":
            return _drain(rng.choice(open_nodes)["metadata"]["name"])
        case "add":
            return _addition(next(body for body in _of_kind(before, NODE) if _name(body) == TEMPLATE), layout)
        case _:
            return _arrival(_workload(rng, f"new{number}"))


def _name(body: Body) -> str:
    name: str = body["metadata"]["name"]
    return name


def _scaling(body: Body, replicas: int) -> Change:
    kind = BY_KIND[body["apiVersion"], body["kind"]]

    async def do(cluster: RunningCluster) -> None:
        await cluster.client.patch(kind, _name(body), MergePatch({"spec": {"replicas": replicas}}), namespace="default")

    change = scaling(f"{kind.singular}/{_name(body)}={replicas}", namespace="default")
    return Change(f"scale {_name(body)} to {replicas}", lambda there: WhatIfQuestion(there, scalings=[change]), do)


def _drain(node: str) -> Change:
    async def do(cluster: RunningCluster) -> None:
        """As `kubectl drain --ignore-daemonsets --force`."""
        await cluster.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": True}}))
        for pod in (await cluster.client.list(POD)).items:
            if pod.spec.node_name == node:
                await cluster.client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)

    return Change(f"drain {node}", lambda there: WhatIfQuestion(there, drain=[node]), do)


def _addition(template: Body, layout: Layout) -> Change:
    async def do(cluster: RunningCluster) -> None:
        """Closed until its driver has reported: a simulation begins with everything in place."""
        row = NodeTemplate(
            ADDED,
            zone=template["metadata"]["labels"][well_known.ZONE],
            region=template["metadata"]["labels"][well_known.REGION],
        )
        body = registration(row)
        body["spec"]["unschedulable"] = True
        await cluster.client.create(NODE, body)
        await _resize(cluster.client, ADDED, int(template["status"]["capacity"]["cpu"]))
        for number in range(1, layout.local_volumes + 1):
            await cluster.client.create(VOLUME, local_volume(ADDED, number))
        await cluster.settle()
        await cluster.client.patch(NODE, ADDED, MergePatch({"spec": {"unschedulable": False}}))

    return Change(
        f"add a node like {TEMPLATE}", lambda there: WhatIfQuestion(there, additions=[Addition(TEMPLATE, 1, there)]), do
    )


def _arrival(bodies: Sequence[Body]) -> Change:
    def ask(there: Inventory) -> WhatIfQuestion:
        for body in bodies:
            there.add(copy.deepcopy(body))
        return WhatIfQuestion(there)

    return Change(f"create {', '.join(map(_name, bodies))}", ask, lambda cluster: _create(cluster.client, *bodies))


async def _resize(client: Client, node: str, cpus: int) -> None:
    """The node agent keeps the reported size of a node."""
    size = {"cpu": str(cpus), "memory": f"{cpus * 4}Gi", "pods": "110"}
    await client.patch(
        NODE, node, MergePatch({"status": {"capacity": size, "allocatable": size}}), subresource="status"
    )
