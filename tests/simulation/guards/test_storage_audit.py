"""Free storage as the scheduler counts it equals what an independent audit finds, with all features at once.

Several classes, capacity, holds, preemption, leader changes, lost nodes, gates and claim rollback.
"""

import ast
import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import NODE
from mooring.cluster.bootstrap import Layout
from mooring.control.feature_gates import parse_feature_gates
from mooring.coordinator.component import Coordinator
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY
from mooring.provisioner.component import Provisioner
from mooring.provisioner.provision.request import VOLUME_NAME
from mooring.provisioner.rollback.orphans import LIST_INTERVAL_SECONDS, SUSPECT_AFTER_SECONDS
from mooring.scheduler.component import Scheduler
from support.builders import Body, claim_body, pod_body
from support.builders.groups import pod_group_body
from support.scenarios import simulated
from support.simulation import audit
from support.simulation.audit import CHARGED_TWICE, PROMISED_TWICE, StorageAudit
from support.simulation.claim_rollback_scenarios import RULES, power
from support.simulation.cluster import SimulatedCluster
from support.simulation.csi_scenarios import without_invalid_responses
from support.simulation.fault_scenario import FaultScenario, check, run
from support.simulation.faults import (
    NO_FAULTS,
    Crash,
    FaultLimits,
    FaultPlan,
    LeaderChange,
    draw,
)
from support.simulation.invariants import ALWAYS, Violation
from support.simulation.rollback_scenarios import GI, cannot_provision, no_committed_volume_lost, nothing
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, seeds
from support.simulation.storage import CONTROLLER, HostpathStorage
from support.simulation.trace import render_trace

PROVISIONER: Final = Provisioner.name
COORDINATOR: Final = Coordinator.name
#: GiB of every node's pools, and their classes: two classes share a pool.
POOLS: Final = {"fast": 12, "slow": 16}
CLASSES: Final = {"fast": "fast", "shared": "fast", "slow": "slow"}
#: Leader changes by crashes, by released leases, and by pauses longer than a lease.
FAULT_LIMITS: Final = FaultLimits(
    (SCHEDULER,) * 4 + (PROVISIONER,) * 3 + (COORDINATOR,) * 2 + (BINDER, NODES),
    bad_calls=8,
    bad_watches=4,
    bad_writes=3,
    rpc_instances=(PROVISIONER,),
    rpcs=("create_volume", "create_volume", "delete_volume", "get_capacity"),
    bad_rpcs=4,
    crashes=5,
    leader_changes=4,
    pauses=1,
    restarts=1,
    deletions=4,
    calls=40,
    writes=20,
    all_writes=140,
    seconds=30.0,
)
SETTLE_SECONDS: Final = 150.0
#: Until the provisioner has found a volume in the driver's list twice, and adopted or deleted it.
ORPHAN_SECONDS: Final = 2 * LIST_INTERVAL_SECONDS + SUSPECT_AFTER_SECONDS
#: A claim is deleted after the scheduler's check and released before the node agent observes that.
CLAIM_DELETED_BEFORE_START: Final = 305
#: A volume is created by a frozen leader after the next one has deleted it, and with it its record.
CREATED_BY_FROZEN_LEADER: Final = 629
#: With a gang: the claim is still there.
CREATED_FOR_GANG_BY_FROZEN_LEADER: Final = 119
GATES: Final = ("", "ClaimRollback=true", "ProvisioningRollback=false,ClaimRollback=true", "ProvisioningRollback=false")


class Everything(NamedTuple):
    """Pods with claims of several classes, some with high priority, and a node that is down temporarily."""

    layout: Layout
    #: By pod, its claims as (class, GiB), and whether it may preempt others.
    pods: tuple[tuple[tuple[tuple[str, int], ...], bool], ...]
    gates: str
    lost: str
    #: Number of the pods, the first ones, that form a group, and how many of them it needs.
    gang: tuple[int, int] = (0, 0)

    @property
    def storage(self) -> HostpathStorage:
        return HostpathStorage(self.layout, rollback=True, **{name: size * GI for name, size in POOLS.items()})

    @property
    def audit(self) -> StorageAudit:
        sizes = {name: size * GI for name, size in POOLS.items()}
        return StorageAudit(sizes, driver=CONTROLLER, label=NODE_KEY, scheduler=SCHEDULER)

    @property
    def collects_orphans(self) -> bool:
        return "ProvisioningRollback=false" not in self.gates

    def scenario(self, auditor: StorageAudit, *, settle: float = SETTLE_SECONDS, leaks: bool = True) -> FaultScenario:
        """`leaks` compares the driver's volumes with the objects at the end."""
        return FaultScenario(
            self.layout,
            self.apply,
            rules=RULES if "ClaimRollback=true" in self.gates else ALWAYS,
            settle=settle,
            inspect=nothing_leaked_or_lost if leaks else nothing,
            audit=auditor,
            extra_components=self.storage.extra_components,
            gates=parse_feature_gates(self.gates),
            can_provision=cannot_provision,
        )

    def limits(self) -> FaultLimits:
        deletable = (
            *(("pods", f"default/pod-{number}") for number in range(len(self.pods))),
            *(("persistentvolumeclaims", f"default/claim-{number}-0") for number in range(len(self.pods))),
            ("nodes", self.lost),
        )
        return msgspec.structs.replace(FAULT_LIMITS, deletable=deletable)

    async def apply(self, cluster: SimulatedCluster) -> None:
        for body in (*self._objects(), *(body for number in range(len(self.pods)) for body in self._pod(number))):
            await simulated.create(cluster, body)
            await cluster.clock.sleep(0.2)
        for on in (False, True):
            # A user may have deleted it meanwhile.
            with suppress(NotFound):
                await power(cluster, self.lost, on=on)
            await cluster.clock.sleep(5.0)

    def _objects(self) -> list[Body]:
        driver, *_ = self.storage.objects()
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        group = [pod_group_body(name="gang", min_count=self.gang[1])] if self.gang[0] else []
        return [driver, urgent | {"value": 9}, *(_class(name, pool) for name, pool in CLASSES.items()), *group]

    def _pod(self, number: int) -> list[Body]:
        claims, urgent = self.pods[number]
        names = [f"claim-{number}-{position}" for position in range(len(claims))]
        # Three fit on a node: the fourth has to wait, or to preempt one.
        pod = pod_body(name=f"pod-{number}", claims=names, requests={"cpu": "2600m"})
        if urgent:
            pod["spec"]["priorityClassName"] = "urgent"
        if number < self.gang[0]:
            pod["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
        asked = zip(names, claims, strict=True)
        return [*(claim_body(name=name, storage_class=of, size=f"{size}Gi") for name, (of, size) in asked), pod]


def _class(name: str, pool: str) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {well_known.CAPACITY_POOL: pool}},
        "provisioner": DRIVER_NAME,
        "parameters": {"pool": pool},
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def everything(seed: int) -> Everything:
    rng = random.Random(f"everything {seed}")
    layout = Layout(nodes=rng.randint(2, 3), local_volumes=0)
    pods = [
        (tuple((rng.choice(tuple(CLASSES)), rng.randint(1, 6)) for _ in range(rng.randint(1, 3))), rng.random() < 0.3)
        for _ in range(rng.randint(4, 8))
    ]
    return Everything(layout, tuple(pods), rng.choice(GATES), rng.choice(layout.rows()).name)


async def nothing_leaked_or_lost(cluster: SimulatedCluster) -> Iterable[Violation]:
    """The volumes of a deleted node are lost with it."""
    nodes = {node.name for node in (await cluster.client.list(NODE)).items}
    lost = {
        volume.context[VOLUME_NAME]
        for volume in await cluster.driver(CONTROLLER).list_volumes()
        if not {topology.segments[NODE_KEY] for topology in volume.accessible_from or ()} & nodes
    }
    found = await no_committed_volume_lost(cluster)
    return [each for each in found if not {subject.key for subject in each.objects} & lost]


def is_fenced(plan: FaultPlan) -> bool:
    """Whether no leader of the provisioner is frozen: a CreateVolume of one arrives after the next leader has deleted
    the volume, since CSI calls are not fenced."""
    return not any(isinstance(f, LeaderChange) and f.instance == PROVISIONER and f.frozen for f in plan.faults)


def audited(situation: Everything, seed: int) -> StorageAudit:
    """The storage audit of a run with the faults of a seed. Volumes that a frozen leader creates are orphans, which
    only a provisioner with rollback looks for."""
    auditor, plan = situation.audit, without_invalid_responses(draw(seed, situation.limits()))
    fenced = is_fenced(plan)
    settle = SETTLE_SECONDS + (0.0 if fenced else ORPHAN_SECONDS)
    leaks = fenced or situation.collects_orphans
    check(situation.scenario(auditor, settle=settle, leaks=leaks), seed=seed, plan=plan)
    return auditor


def with_gang(seed: int) -> Everything:
    rng = random.Random(f"gang of everything {seed}")
    situation = everything(seed)
    members = rng.randint(2, len(situation.pods) - 1)
    # The members of a group have one priority.
    pods = [(claims, urgent and number >= members) for number, (claims, urgent) in enumerate(situation.pods)]
    gates = rng.choice(("GangVolumes=true", "GangVolumes=true,ClaimRollback=true"))
    return situation._replace(pods=tuple(pods), gates=gates, gang=(members, rng.randint(2, members)))


@pytest.mark.level("s")
@pytest.mark.req("C16.in-flight", "C16.held", "C16.end")
@pytest.mark.parametrize("seed", sorted({*seeds(8), CLAIM_DELETED_BEFORE_START, CREATED_BY_FROZEN_LEADER}))
def test_scheduler_capacity_matches_driver(seed: int) -> None:
    assert audited(everything(seed), seed).compared > 50, "there was hardly anything to audit"


@pytest.mark.parametrize("seed", sorted({*seeds(6), CREATED_FOR_GANG_BY_FROZEN_LEADER}))
def test_scheduler_capacity_matches_driver_with_a_gang(seed: int) -> None:
    assert audited(with_gang(seed), seed).compared > 50, "there was hardly anything to audit"


def test_scheduler_capacity_matches_driver_after_leader_changes() -> None:
    """One scheduler releases its lease, one resumes beside the new leader, and one crashes."""
    instance = SCHEDULER
    ends = (LeaderChange(instance, 2), LeaderChange(instance, 4, frozen=15.5), Crash(instance, 7, down=2.0))
    situation, auditor = everything(1), everything(1).audit
    result = check(situation.scenario(auditor), seed=1, plan=FaultPlan(ends, latency=0.02))
    notes = [line for line in render_trace(result.history, ()) if instance in line]
    assert [sum(text in line for line in notes) for text in ("another instance leads", "resumed", "started again")] == [
        2,
        1,
        1,
    ]
    assert auditor.compared > 50, "there was hardly anything to audit"


@pytest.mark.parametrize(("error", "rule"), [(GI, PROMISED_TWICE), (-GI, CHARGED_TWICE)])
def test_audit_detects_wrong_scheduler_capacity(error: int, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Scheduler.free_storage

    def wrong(scheduler: Scheduler) -> dict[str, int]:
        return {key: free + error for key, free in counted(scheduler).items()}

    monkeypatch.setattr(Scheduler, "free_storage", wrong)
    situation = everything(1)
    violation = run(situation.scenario(situation.audit), seed=1, plan=NO_FAULTS).violation
    assert violation is not None
    assert violation.rule == rule


def test_audit_imports_no_audited_package() -> None:
    source = ast.parse(Path(audit.__file__).read_text())
    imported = [node.module or "" for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert not [name for name in imported if name.startswith(("mooring.volumes", "mooring.scheduler"))]
