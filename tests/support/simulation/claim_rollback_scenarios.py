"""Fault scenarios of the claim rollback: pods that are unschedulable because of unused bound claims."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import structs

from mooring.api.kinds import CLAIM, NODE, POD
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.control.feature_gates import parse_feature_gates
from mooring.nodeagent.node_objects import POWER
from mooring.provisioner.component import Provisioner
from mooring.volumes.claim_rollback import is_clean, is_rolling_back, may_have_used_volumes, may_unbind
from support.builders import Body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import FaultLimits
from support.simulation.invariants import ALWAYS, Facts, Rule, Step, Subject, Violation, bound_for_good
from support.simulation.rollback_scenarios import GI, LARGE, SMALL, Squeeze, cannot_provision
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, all_pods_run
from support.simulation.storage import HostpathStorage, storage_differences

PROVISIONER: Final = Provisioner.name
#: Volumes are bound one by one, as in Kubernetes; unused ones can be unbound.
ALONE: Final = "ProvisioningRollback=false,ClaimRollback=true"
FAULT_LIMITS: Final = FaultLimits(
    (SCHEDULER,) * 3 + (BINDER,) * 4 + (NODES, NODES, PROVISIONER),
    bad_calls=10,
    bad_watches=4,
    bad_writes=3,
    crashes=4,
    pauses=1,
    restarts=1,
    calls=40,
    writes=20,
    all_writes=100,
    seconds=30.0,
)


#: Two instances of each writer, as with an old leader that has not observed the loss of its lease.
WITH_DUPLICATES: Final = structs.replace(FAULT_LIMITS, duplicates=(SCHEDULER, BINDER, NODES))


def unbound_only_if_unused(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim is unbound only while it is clean, marked, and no pod may have used it; never directly rebound."""
    before, claim = step
    if not isinstance(before, Claim) or not isinstance(claim, Claim) or not before.fully_bound or claim.fully_bound:
        return
    near = [pod.key for pod in facts.pods.values() if claim.key in pod.claim_keys and may_have_used_volumes(pod)]
    if claim.spec.volume_name or not may_unbind(before) or near:
        text = f"claim {claim.key} lost volume {before.spec.volume_name}; pods: {near}"
        yield Violation("unbound only if unused", text, (Subject(CLAIM, claim.key),))


def dirty_stays(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim that has a volume and is not clean does not become so."""
    before, claim = step
    if not isinstance(before, Claim) or not isinstance(claim, Claim) or not before.spec.volume_name:
        return
    if is_clean(claim) and not is_clean(before):
        yield Violation("dirty stays dirty", f"claim {claim.key} is clean again", (Subject(CLAIM, claim.key),))


def dirty_before_use(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim of a running pod is not clean."""
    before, pod = step
    ran = isinstance(before, Pod) and before.status.phase == "Running"
    if isinstance(pod, Pod) and pod.status.phase == "Running" and not ran:
        for claim in facts.claims_of(pod):
            if is_clean(claim):
                text = f"pod {pod.key} runs with claim {claim.key}, which is marked as clean"
                yield Violation("dirty before use", text, (Subject(POD, pod.key), Subject(CLAIM, claim.key)))


RULES: Final[tuple[Rule, ...]] = (
    *(rule for rule in ALWAYS if rule is not bound_for_good),
    unbound_only_if_unused,
    dirty_stays,
    dirty_before_use,
)


def half_bound(*, fault_seconds: float = 20.0, settle: float = 60.0) -> FaultScenario:
    """A pod whose first volume is bound on a node without capacity for the second; volumes are not held."""
    squeeze = Squeeze()
    storage = HostpathStorage(squeeze.layout, rollback=False, published=False, fast=10 * GI)
    return FaultScenario(
        squeeze.layout,
        partial(squeeze.apply, storage, rollback=False, leaving=False),
        rules=RULES,
        fault_seconds=fault_seconds,
        settle=settle,
        expect=partial(all_pods_run, count=2),
        inspect=settled,
        extra_components=storage.extra_components,
        gates=parse_feature_gates(ALONE),
        can_provision=cannot_provision,
    )


def refused(*, fault_seconds: float = 20.0, settle: float = 60.0) -> FaultScenario:
    """A pod of a StatefulSet that its node rejects after its claim was bound there: the node's labels changed."""
    layout = Layout(nodes=2, local_volumes=1)
    return FaultScenario(
        layout,
        _refused,
        rules=RULES,
        fault_seconds=fault_seconds,
        settle=settle,
        expect=partial(all_pods_run, count=1),
        inspect=nothing_marked,
        gates=parse_feature_gates(ALONE),
    )


async def _refused(cluster: SimulatedCluster) -> None:
    """The node is off while the pod is scheduled to it, and returns with another label."""
    fast = {"disk": "fast"}
    await label(cluster, SMALL, fast)
    await power(cluster, SMALL, on=False)
    await cluster.clock.sleep(1.0)
    await simulated.create(cluster, _replicas())
    assert await cluster.until(partial(_is_scheduled, cluster), within=200.0), "the pod is not scheduled"
    await label(cluster, SMALL, {"disk": None})
    await label(cluster, LARGE, fast)
    await power(cluster, SMALL, on=True)


def _replicas() -> Body:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": LOCAL_CLASS,
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "db", "image": "db"}], "nodeSelector": {"disk": "fast"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


async def _is_scheduled(cluster: SimulatedCluster) -> bool:
    pods = (await cluster.client.list(POD)).items
    return any(pod.spec.node_name == SMALL for pod in pods)


async def label(cluster: SimulatedCluster, node: str, labels: Mapping[str, str | None]) -> None:
    await cluster.client.patch(NODE, node, MergePatch({"metadata": {"labels": labels}}))


async def power(cluster: SimulatedCluster, node: str, *, on: bool) -> None:
    notes = {POWER: None if on else "off"}
    await cluster.client.patch(NODE, node, MergePatch({"metadata": {"annotations": notes}}))


async def settled(cluster: SimulatedCluster) -> Iterable[Violation]:
    """The driver and the API agree, and no claim is being unbound."""
    return [*await storage_differences(cluster), *[each async for each in _marked(cluster)]]


async def nothing_marked(cluster: SimulatedCluster) -> Iterable[Violation]:
    return [each async for each in _marked(cluster)]


async def _marked(cluster: SimulatedCluster) -> AsyncIterator[Violation]:
    for claim in (await cluster.client.list(CLAIM)).items:
        if is_rolling_back(claim):
            yield Violation("rollbacks end", f"claim {claim.key} is still marked", (Subject(CLAIM, claim.key),))
