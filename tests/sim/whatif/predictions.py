"""Random clusters and changes, made twice: by `mooring simulate` from a listing, and in the simulated cluster, which
has the real node agent, driver, publisher and garbage collector.
"""

import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from builders import Body, claim_body, class_body, pod_body
from mooring.api import keys
from mooring.api.kinds import (
    BY_KIND,
    DEPLOYMENT,
    LEASE,
    NODE,
    POD,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    VOLUME,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.cluster.bootstrap import Layout, local_volume
from mooring.hostpath.layout import DRIVER_NAME
from mooring.nodeagent.rows import NodeRow, registration
from mooring.sim.storage import Hostpaths
from mooring.sim.whatif.additions import Addition
from mooring.sim.whatif.answer import answer
from mooring.sim.whatif.inventory import KINDS, Inventory
from mooring.sim.whatif.question import Question
from mooring.sim.whatif.scaling import scaling
from mooring.sim.world import World, simulate
from scenarios import in_world

GI: Final = 2**30
#: What each node has, in GiB: little, so that many pods wait.
FAST: Final = 12
SLOW: Final = 25
#: Pool and kind of each class, as `mooring up` has them.
CLASSES: Final = {
    "fast": {"pool": "fast"},
    "slow": {"pool": "slow"},
    "mirrored": {"pool": "slow", "kind": "mirrored"},
}
#: CPUs of nodes: far enough apart that few are equally good.
CPUS: Final = (4, 7, 11, 16)
TEMPLATE: Final = "node-1"
ADDED: Final = f"{TEMPLATE}-new-1"
#: Simulated seconds: longer than any backoff, shorter than the five minutes after which all pods are tried again.
SETTLE: Final = 150.0


class Change(NamedTuple):
    """A change to ask about, and the same done to the cluster."""

    what: str
    ask: Callable[[Inventory], Question]
    do: Callable[[World], Awaitable[None]]


class State(NamedTuple):
    """What is compared: how many pods of which workload are on which node ("" for none), what is free of each class in
    each place, and how many volumes there are."""

    pods: Counter[tuple[str, str]]
    room: dict[tuple[str, str], str]
    volumes: int


class Case(NamedTuple):
    """One change: the cluster as it was listed before, and after."""

    change: Change
    before: Sequence[Body]
    after: Sequence[Body]


def cases(seed: int, changes: int) -> list[Case]:
    """A cluster drawn from the seed, and what became of it with one change after the other."""
    rng = random.Random(f"predictions {seed}")
    layout = Layout(nodes=rng.randint(2, 4), zones=2, local_volumes=rng.randint(0, 2))
    rollback = rng.random() < 0.5
    storage = Hostpaths(layout, rollback=rollback, joining=[ADDED], fast=FAST * GI, slow=SLOW * GI)

    async def scenario(world: World) -> list[Case]:
        for row, cpus in zip(layout.rows(), rng.sample(CPUS, layout.nodes), strict=True):
            await _resize(world, row.name, cpus)
        await in_world.create(world, storage.objects()[0], *_classes())
        for number in range(rng.randint(2, 4)):
            await in_world.create(world, *_workload(rng, f"{number}"))
        await world.clock.sleep(SETTLE)
        found = []
        for number in range(changes):
            before = await _listed(world)
            change = _change(rng, before, layout, number)
            await change.do(world)
            await world.clock.sleep(SETTLE)
            found.append(Case(change, before, await _listed(world)))
        return found

    return simulate(scenario, layout=layout, seed=seed, annex=storage.annex)


def predicted(case: Case) -> State:
    inventory = Inventory()
    for body in case.before:
        inventory.add(copy.deepcopy(body))
    outcome = answer(case.change.ask(inventory))
    pods = {_key(body): body["spec"].get("nodeName", "") for body in _of_kind(case.before, POD)}
    for key in outcome.difference.pods_removed:
        del pods[key]
    pods |= {each.pod: each.node for each in outcome.placements}
    pods |= {each.pod: "" for each in outcome.pending}
    made, gone = len(outcome.difference.volumes_made), len(outcome.difference.volumes_removed)
    return State(
        _counted(pods),
        {(each.storage_class, _place(each.segment)): each.after or "" for each in outcome.capacity},
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
    """Pods that had no node before the change."""
    return sum(not body["spec"].get("nodeName") for body in _of_kind(case.before, POD))


def _counted(nodes: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Pods of a Deployment are alike, whatever their names."""
    names = [key.partition("/")[2] for key in nodes]
    workloads = [name.rsplit("-", 2)[0] if name.startswith("deploy") else name for name in names]
    return Counter(zip(workloads, nodes.values(), strict=True))


def _key(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _place(labels: Mapping[str, str]) -> str:
    return ",".join(sorted(labels.values()))


def _of_kind(bodies: Sequence[Body], kind: Kind[ApiObject]) -> list[Body]:
    return [body for body in bodies if body["kind"] == kind.kind]


async def _listed(world: World) -> list[Body]:
    """Everything that `mooring simulate` reads of a cluster, as kubectl would print it."""
    found: list[Body] = []
    for kind in (*KINDS, LEASE):
        records = (await world.store.list(kind.store_prefix())).records
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        found += [head | msgspec.json.decode(record.value) for record in records]
    return found


def _classes() -> list[Body]:
    return [
        class_body(
            name=name, provisioner=DRIVER_NAME, parameters=given, annotations={keys.CAPACITY_POOL: given["pool"]}
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
    """A StatefulSet, a Deployment whose pods have volumes of their own, or a pod with claims."""
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


def _change(rng: random.Random, before: Sequence[Body], layout: Layout, number: int) -> Change:
    sets = [*_of_kind(before, STATEFUL_SET), *_of_kind(before, DEPLOYMENT)]
    names = {body["metadata"]["name"] for body in _of_kind(before, NODE)}
    open_nodes = [each for each in _of_kind(before, NODE) if not each["spec"].get("unschedulable")]
    kinds = ["new", *(["scale", "scale", "scale"] if sets else ()), *(["drain"] if len(open_nodes) > 1 else ())]
    match rng.choice([*kinds, *(["add"] if ADDED not in names else ())]):
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

    async def do(world: World) -> None:
        await world.client.patch(kind, _name(body), MergePatch({"spec": {"replicas": replicas}}), namespace="default")

    change = scaling(f"{kind.singular}/{_name(body)}={replicas}", namespace="default")
    return Change(f"scale {_name(body)} to {replicas}", lambda there: Question(there, scalings=[change]), do)


def _drain(node: str) -> Change:
    async def do(world: World) -> None:
        """As `kubectl drain --ignore-daemonsets --force`."""
        await world.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": True}}))
        for pod in (await world.client.list(POD)).items:
            if pod.spec.node_name == node:
                await world.client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)

    return Change(f"drain {node}", lambda there: Question(there, drain=[node]), do)


def _addition(template: Body, layout: Layout) -> Change:
    async def do(world: World) -> None:
        """Closed until its driver has reported: a simulation begins with everything in place."""
        row = NodeRow(
            ADDED, zone=template["metadata"]["labels"][keys.ZONE], region=template["metadata"]["labels"][keys.REGION]
        )
        body = registration(row)
        body["spec"]["unschedulable"] = True
        await world.client.create(NODE, body)
        await _resize(world, ADDED, int(template["status"]["capacity"]["cpu"]))
        for number in range(1, layout.local_volumes + 1):
            await world.client.create(VOLUME, local_volume(ADDED, number))
        await world.clock.sleep(SETTLE)
        await world.client.patch(NODE, ADDED, MergePatch({"spec": {"unschedulable": False}}))

    return Change(
        f"add a node like {TEMPLATE}", lambda there: Question(there, additions=[Addition(TEMPLATE, 1, there)]), do
    )


def _arrival(bodies: Sequence[Body]) -> Change:
    def ask(there: Inventory) -> Question:
        for body in bodies:
            there.add(copy.deepcopy(body))
        return Question(there)

    return Change(f"create {', '.join(map(_name, bodies))}", ask, lambda world: in_world.create(world, *bodies))


async def _resize(world: World, node: str, cpus: int) -> None:
    """The node agent keeps what a node says of its size."""
    size = {"cpu": str(cpus), "memory": f"{cpus * 4}Gi", "pods": "110"}
    await world.client.patch(
        NODE, node, MergePatch({"status": {"capacity": size, "allocatable": size}}), subresource="status"
    )
