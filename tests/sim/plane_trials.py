"""The whole control plane at work: every component has something to write, and any of its requests may go wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from builders import Body, claim_body, class_body, pod_body
from mooring.api.errors import NotFound
from mooring.api.kinds import (
    CLAIM,
    CLUSTER_ROLE,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NAMESPACE,
    NODE,
    POD,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
)
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.controllers import CONTROLLERS
from mooring.coordinator.component import Coordinator
from mooring.nodeagent.attacher import Attacher
from mooring.provisioner.component import Provisioner
from mooring.sim.facts import Facts, Subject
from mooring.sim.hazards import Hazards
from mooring.sim.invariants import ALWAYS, Violation
from mooring.sim.storage import Hostpaths
from mooring.sim.trial import Trial
from mooring.sim.world import World
from scenarios import in_world
from sim.rollback_trials import committed_stays, given_together, settled
from sim.trials import NODES, SCHEDULER

GI: Final = 2**30
#: All components of the plane, by the name that fault plans know them under.
COMPONENTS: Final = (
    *(controller.source for controller in CONTROLLERS),
    *(SCHEDULER, NODES, Provisioner.name, Coordinator.name, Attacher.name),
)
#: Those that call the driver.
CALLERS: Final = (Provisioner.name, NODES, Attacher.name)
#: Refusals and unreadable answers anywhere, many at once: shrinking finds the one that matters.
REFUSALS: Final = Hazards(
    COMPONENTS,
    refusals=120,
    event_refusals=20,
    watch_refusals=20,
    callers=CALLERS,
    rpc_refusals=12,
    calls=30,
)
#: The same, and everything else that may go wrong.
EVERYTHING: Final = msgspec.structs.replace(
    REFUSALS, refusals=60, bad_calls=20, bad_watches=10, bad_writes=5, bad_rpcs=4, crashes=6, pauses=2, restarts=1
)

BUDGET: Final[Body] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "db"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
}
LAYOUT: Final = Layout(nodes=3, local_volumes=3)
STORAGE: Final = Hostpaths(LAYOUT, rollback=True, attach=True, fast=200 * GI)
#: Pods that run in the end: 2 of the StatefulSet, 2 of the Deployment, 3 of the DaemonSet, and the single ones.
REPAIR: Final = "example.com/repair"
IMPORTANT: Final = {"priorityClassName": "important"}
SINGLE: Final = ("ephemeral", "mixed", "at-once", "important")
RUNNING: Final = 2 + 2 + 3 + len(SINGLE)


def plane(*, rough: float = 25.0, settle: float = 240.0, churn: bool = False) -> Trial:
    """`churn` is for users who delete objects and make them again under their names, and change others there and
    back."""
    return Trial(
        LAYOUT,
        _apply_and_churn if churn else _apply,
        rules=(*ALWAYS, committed_stays, given_together),
        rough=rough,
        settle=settle,
        expect=_all_run,
        inspect=settled,
        annex=STORAGE.annex,
        make=STORAGE.make,
    )


async def _apply(world: World) -> None:
    for body in _first():
        await in_world.create(world, body)
    for body in _in_namespace("shop"):
        await world.client.create(POD if body["kind"] == "Pod" else CLAIM, body, namespace="shop")
    await world.clock.sleep(6.0)
    # A pod that has to make room for itself, one whose node goes away for a moment, and a namespace that goes.
    await in_world.create(world, _single("important", cpu="6", spec=IMPORTANT))
    await world.client.delete(NAMESPACE, "shop")
    await world.client.delete(DEPLOYMENT, "old", namespace="default")
    taint = [{"key": REPAIR, "effect": "NoExecute"}]
    await world.client.patch(NODE, "node-3", MergePatch({"spec": {"taints": taint}}))
    await world.client.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 3}}), namespace="default")
    await world.clock.sleep(6.0)
    await world.client.patch(NODE, "node-3", MergePatch({"spec": {"taints": None}}))
    await world.client.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 2}}), namespace="default")
    await world.client.delete(POD, "leaving", namespace="default")
    await world.client.delete(CLAIM, "leaving", namespace="default")
    await world.client.patch(CLUSTER_ROLE, "part", MergePatch({"rules": [_rule("secrets")]}))


async def _apply_and_churn(world: World) -> None:
    """Everything that can be taken for what was there before, or for nothing at all, by a component that did not see
    the moment in between."""
    await _apply(world)
    await world.clock.sleep(2.0)
    # Deleted and made again under the same name: a pod with its claim, a class, a disruption budget.
    for kind, name in ((POD, "at-once"), (CLAIM, "at-once")):
        await world.client.delete(kind, name, namespace="default")
    assert await world.until(lambda: _is_gone(world, CLAIM, "at-once"), within=120.0), "the claim stays"
    await in_world.create(world, claim_body(name="at-once", storage_class="at-once", size="1Gi"))
    await in_world.create(world, _single("at-once", "at-once"))
    fast = next(body for body in STORAGE.objects() if body["metadata"]["name"] == "fast")
    await world.client.delete(STORAGE_CLASS, "fast")
    await in_world.create(world, fast)
    await world.client.delete(DISRUPTION_BUDGET, "db", namespace="default")
    await in_world.create(world, BUDGET)
    # Changed and changed back: cordoned nodes, replicas, a label.
    for node in ("node-1", "node-2", "node-3"):
        for on in (True, None):
            await world.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": on}}))
    for replicas in (1, 3, 2):
        patch = MergePatch({"spec": {"replicas": replicas}})
        await world.client.patch(DEPLOYMENT, "web", patch, namespace="default")
        await world.client.patch(STATEFUL_SET, "db", patch, namespace="default")


async def _is_gone(world: World, kind: Kind[ApiObject], name: str) -> bool:
    try:
        await world.client.get(kind, name, namespace="default")
    except NotFound:
        return True
    return False


def _single(name: str, *claims: str, cpu: str = "", volumes: Sequence[Body] = (), spec: Body | None = None) -> Body:
    """A pod without an owner, which stays where it is during the repair."""
    return pod_body(
        name=name,
        claims=claims,
        volumes=volumes,
        requests={"cpu": cpu} if cpu else None,
        tolerations=[{"key": REPAIR, "operator": "Exists"}],
        more_spec=spec,
    )


def _first() -> Iterator[Body]:
    yield from STORAGE.objects()
    yield class_body(name="at-once", provisioner="zonal.standins.mooring.dev", binding_mode="Immediate")
    name = IMPORTANT["priorityClassName"]
    yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    yield _owner("apps/v1", "StatefulSet", "db", replicas=2, more=_templates("data", "log"))
    yield _owner("apps/v1", "Deployment", "web", replicas=2)
    yield _owner("apps/v1", "Deployment", "old", replicas=1)
    yield _owner("apps/v1", "DaemonSet", "agent")
    yield BUDGET
    yield _role("whole", aggregate={"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]})
    yield _role("part", rules=[_rule("pods")], labels={"part": "yes"})
    yield claim_body(name="first", storage_class="fast", size="2Gi")
    yield claim_body(name="second", storage_class="fast", size="3Gi")
    yield claim_body(name="third", storage_class=LOCAL_CLASS, size="1Gi")
    yield _single("mixed", "first", "second", "third")
    yield claim_body(name="at-once", storage_class="at-once", size="1Gi")
    yield _single("at-once", "at-once")
    yield claim_body(name="leaving", storage_class="fast", size="1Gi")
    yield _single("leaving", "leaving")
    template = {"spec": {"storageClassName": "fast", **_asking("1Gi")}}
    yield _single("ephemeral", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    for node in ("node-1", "node-2", "node-3"):
        # What has to go for the important one, on whichever node that is.
        yield pod_body(name=f"filler-{node}", requests={"cpu": "6"})


def _in_namespace(namespace: str) -> Iterator[Body]:
    yield claim_body(name="till", namespace=namespace, storage_class="fast", size="1Gi")
    yield pod_body(name="till", namespace=namespace, claims=("till",))


def _asking(size: str) -> Body:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}


def _templates(*names: str) -> Body:
    templates = [{"metadata": {"name": name}, "spec": {"storageClassName": "fast", **_asking("1Gi")}} for name in names]
    return {"volumeClaimTemplates": templates, "serviceName": "db", "podManagementPolicy": "Parallel"}


def _owner(api_version: str, kind: str, name: str, *, replicas: int | None = None, more: Body | None = None) -> Body:
    pod: dict[str, Any] = {"containers": [{"name": "main", "image": "example.com/main:1"}]}
    if more is not None:
        pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec: Body = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        **({"replicas": replicas} if replicas is not None else {}),
        **(more or {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _role(name: str, *, rules: Sequence[Body] = (), aggregate: Body | None = None, labels: Body | None = None) -> Body:
    body: Body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels or {}},
        "rules": list(rules),
    }
    return body | ({"aggregationRule": aggregate} if aggregate is not None else {})


def _rule(resource: str) -> Body:
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}


def _all_run(facts: Facts) -> Iterable[Violation]:
    """There is room for all but the fillers, one of which may have gone for the important pod."""
    wanted = [pod for pod in facts.pods.values() if not pod.name.startswith("filler")]
    if len(wanted) != RUNNING or any(pod.status.phase != "Running" for pod in wanted):
        text = f"{RUNNING} pods should run: {sorted((pod.key, pod.status.phase) for pod in wanted)}"
        yield Violation("all pods run", text, tuple(Subject(POD, pod.key) for pod in wanted))
