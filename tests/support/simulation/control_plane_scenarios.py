"""A fault scenario in which every component of the control plane writes, and any request may fail."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

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
from mooring.api.views.pods import Pod
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.control_plane import CONTROLLERS
from mooring.coordinator.component import Coordinator
from mooring.nodeagent.attacher import Attacher
from mooring.provisioner.component import Provisioner
from support.builders import Body, claim_body, class_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import FaultLimits
from support.simulation.invariants import ALWAYS, Facts, Subject, Violation
from support.simulation.rollback_scenarios import committed_stays, committed_together, settled
from support.simulation.scenarios import NODES, SCHEDULER
from support.simulation.storage import HostpathStorage

GI: Final = 2**30
#: All components, by their names in fault plans.
COMPONENTS: Final = (
    *(controller.source for controller in CONTROLLERS),
    *(SCHEDULER, NODES, Provisioner.name, Coordinator.name, Attacher.name),
)
#: Those that call the driver.
RPC_INSTANCES: Final = (Provisioner.name, NODES, Attacher.name)
#: Many refusals and garbled responses at once: shrinking finds the one that matters.
REFUSALS: Final = FaultLimits(
    COMPONENTS,
    refusals=120,
    event_refusals=20,
    watch_refusals=20,
    rpc_instances=RPC_INSTANCES,
    rpc_refusals=12,
    calls=30,
)
#: The same, and all other faults.
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
STORAGE: Final = HostpathStorage(LAYOUT, rollback=True, attach=True, fast=200 * GI)
REPAIR: Final = "example.com/repair"
IMPORTANT: Final = {"priorityClassName": "important"}
SINGLE: Final = ("ephemeral", "mixed", "at-once", "important")
#: Pods that run in the end, by workload: of the StatefulSet, the Deployment, the DaemonSet, and single ones.
RUNNING: Final = Counter({"db": 2, "web": 2, "agent": 3, **dict.fromkeys(SINGLE, 1)})


def plane(*, fault_seconds: float = 25.0, settle: float = 240.0, churn: bool = False) -> FaultScenario:
    """`churn`: users delete and recreate objects under their names, and change others and revert the change."""
    return FaultScenario(
        LAYOUT,
        _apply_and_churn if churn else _apply,
        rules=(*ALWAYS, committed_stays, committed_together),
        fault_seconds=fault_seconds,
        settle=settle,
        expect=_all_run,
        inspect=settled,
        extra_components=STORAGE.extra_components,
        can_provision=STORAGE.can_provision,
    )


async def _apply(cluster: SimulatedCluster) -> None:
    for body in _first():
        await simulated.create(cluster, body)
    for body in _in_namespace("shop"):
        await cluster.client.create(POD if body["kind"] == "Pod" else CLAIM, body, namespace="shop")
    await cluster.clock.sleep(6.0)
    # A pod that preempts others, a pod whose node is tainted for a moment, and a namespace that is deleted.
    await simulated.create(cluster, _single("important", cpu="6", spec=IMPORTANT))
    await cluster.client.delete(NAMESPACE, "shop")
    await cluster.client.delete(DEPLOYMENT, "old", namespace="default")
    taint = [{"key": REPAIR, "effect": "NoExecute"}]
    await cluster.client.patch(NODE, "node-3", MergePatch({"spec": {"taints": taint}}))
    await cluster.client.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 3}}), namespace="default")
    await cluster.clock.sleep(6.0)
    await cluster.client.patch(NODE, "node-3", MergePatch({"spec": {"taints": None}}))
    await cluster.client.patch(STATEFUL_SET, "db", MergePatch({"spec": {"replicas": 2}}), namespace="default")
    await cluster.client.delete(POD, "leaving", namespace="default")
    await cluster.client.delete(CLAIM, "leaving", namespace="default")
    await cluster.client.patch(CLUSTER_ROLE, "part", MergePatch({"rules": [_rule("secrets")]}))


async def _apply_and_churn(cluster: SimulatedCluster) -> None:
    """Changes that a component which missed the intermediate state mistakes for the previous object or for none."""
    await _apply(cluster)
    await cluster.clock.sleep(2.0)
    # Deleted and recreated under the same name: a pod with its claim, a class, a disruption budget.
    for kind, name in ((POD, "at-once"), (CLAIM, "at-once")):
        await cluster.client.delete(kind, name, namespace="default")
    assert await cluster.until(lambda: _is_deleted(cluster, CLAIM, "at-once"), within=120.0), "the claim is not deleted"
    await simulated.create(cluster, claim_body(name="at-once", storage_class="at-once", size="1Gi"))
    await simulated.create(cluster, _single("at-once", "at-once"))
    fast = next(body for body in STORAGE.objects() if body["metadata"]["name"] == "fast")
    await cluster.client.delete(STORAGE_CLASS, "fast")
    await simulated.create(cluster, fast)
    await cluster.client.delete(DISRUPTION_BUDGET, "db", namespace="default")
    await simulated.create(cluster, BUDGET)
    # Changed and changed back: cordoned nodes, replicas, a label.
    for node in ("node-1", "node-2", "node-3"):
        for on in (True, None):
            await cluster.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": on}}))
    for replicas in (1, 3, 2):
        patch = MergePatch({"spec": {"replicas": replicas}})
        await cluster.client.patch(DEPLOYMENT, "web", patch, namespace="default")
        await cluster.client.patch(STATEFUL_SET, "db", patch, namespace="default")


async def _is_deleted(cluster: SimulatedCluster, kind: Kind[ApiObject], name: str) -> bool:
    try:
        await cluster.client.get(kind, name, namespace="default")
    except NotFound:
        return True
    return False


def _single(name: str, *claims: str, cpu: str = "", volumes: Sequence[Body] = (), spec: Body | None = None) -> Body:
    """A pod without an owner that tolerates the repair taint."""
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
        # Victims of the important pod, whichever node it selects.
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
    """All pods fit but the fillers, one of which may have been preempted."""
    expected = [pod for pod in facts.pods.values() if not pod.name.startswith("filler") and not _is_replaced(pod)]
    running = Counter(
        pod.metadata.labels.get("app", pod.name)
        for pod in expected
        if pod.status.phase == "Running" and not pod.deleting
    )
    if running != RUNNING or len(expected) != RUNNING.total():
        text = f"{dict(RUNNING)} should run: {sorted((pod.key, pod.status.phase) for pod in expected)}"
        yield Violation("all pods run", text, tuple(Subject(POD, pod.key) for pod in expected))


def _is_replaced(pod: Pod) -> bool:
    """A ReplicaSet replaces a failed pod and neither counts nor deletes it: its node may have rejected it for a taint
    that the scheduler had not observed. StatefulSets and DaemonSets delete theirs, and a single pod has no replacement.
    """
    return pod.status.phase == "Failed" and pod.controller is not None and pod.controller.kind == "ReplicaSet"
