"""Everything at once: several classes, capacity, holds, preemption, leader changes, lost nodes, gates, claim rollback.

Whatever happens, what the scheduler counts as free storage is what an independent auditor finds to be free.
"""

import ast
import random
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from builders import Body, claim_body, pod_body
from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.cluster.bootstrap import Layout
from mooring.control.feature_gates import parse
from mooring.coordinator.component import Coordinator
from mooring.hostpath.layout import DRIVER_NAME, NODE_KEY
from mooring.provisioner.component import Provisioner
from mooring.scheduler.component import Scheduler
from mooring.sim import audit
from mooring.sim.audit import CHARGED_TWICE, PROMISED_TWICE, StorageAudit
from mooring.sim.faults import CALM
from mooring.sim.hazards import Hazards, draw
from mooring.sim.invariants import ALWAYS
from mooring.sim.storage import CONTROLLER, Hostpaths
from mooring.sim.trial import Trial, check, run
from mooring.sim.world import World
from scenarios import in_world
from sim.claim_rollback_trials import RULES, power
from sim.csi_trials import honest
from sim.rollback_trials import GI, makes_nothing
from sim.trials import BINDER, NODES, SCHEDULER, seeds

PROVISIONER: Final = Provisioner.name
COORDINATOR: Final = Coordinator.name
#: GiB of every node's pools, and the classes that take from them: two share one.
POOLS: Final = {"fast": 12, "slow": 16}
CLASSES: Final = {"fast": "fast", "shared": "fast", "slow": "slow"}
#: Leaders change: who crashes is followed by one that remembers nothing.
ROUGH: Final = Hazards(
    (SCHEDULER,) * 4 + (PROVISIONER,) * 3 + (COORDINATOR,) * 2 + (BINDER, NODES),
    bad_calls=8,
    bad_watches=4,
    bad_writes=3,
    callers=(PROVISIONER,),
    rpcs=("create_volume", "create_volume", "delete_volume", "get_capacity"),
    bad_rpcs=4,
    crashes=5,
    pauses=1,
    restarts=1,
    deletions=4,
    calls=40,
    writes=20,
    all_writes=140,
    seconds=30.0,
)
GATES: Final = ("", "ClaimRollback=true", "ProvisioningRollback=false,ClaimRollback=true", "ProvisioningRollback=false")


class Everything(NamedTuple):
    """Pods with claims of several classes, some of them urgent, and a node that loses its power for a while."""

    layout: Layout
    #: By pod, its claims as (class, GiB), and whether it may push others out.
    pods: tuple[tuple[tuple[tuple[str, int], ...], bool], ...]
    gates: str
    lost: str

    @property
    def storage(self) -> Hostpaths:
        return Hostpaths(self.layout, rollback=True, **{name: size * GI for name, size in POOLS.items()})

    @property
    def audit(self) -> StorageAudit:
        sizes = {name: size * GI for name, size in POOLS.items()}
        return StorageAudit(sizes, driver=CONTROLLER, label=NODE_KEY, scheduler=SCHEDULER)

    def trial(self, auditor: StorageAudit, *, settle: float = 90.0) -> Trial:
        return Trial(
            self.layout,
            self.apply,
            rules=RULES if "ClaimRollback=true" in self.gates else ALWAYS,
            settle=settle,
            audit=auditor,
            annex=self.storage.annex,
            gates=parse(self.gates),
            make=makes_nothing,
        )

    def hazards(self) -> Hazards:
        deletable = (
            *(("pods", f"default/pod-{number}") for number in range(len(self.pods))),
            *(("persistentvolumeclaims", f"default/claim-{number}-0") for number in range(len(self.pods))),
            ("nodes", self.lost),
        )
        return msgspec.structs.replace(ROUGH, deletable=deletable)

    async def apply(self, world: World) -> None:
        for body in (*self._objects(), *(body for number in range(len(self.pods)) for body in self._pod(number))):
            await in_world.create(world, body)
            await world.clock.sleep(0.2)
        for on in (False, True):
            # A user may have deleted it meanwhile.
            with suppress(NotFound):
                await power(world, self.lost, on=on)
            await world.clock.sleep(5.0)

    def _objects(self) -> list[Body]:
        driver, *_ = self.storage.objects()
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
        return [driver, urgent | {"value": 9}, *(_class(name, pool) for name, pool in CLASSES.items())]

    def _pod(self, number: int) -> list[Body]:
        claims, urgent = self.pods[number]
        names = [f"claim-{number}-{position}" for position in range(len(claims))]
        # Three fit on a node: the fourth has to wait, or to preempt one.
        pod = pod_body(name=f"pod-{number}", claims=names, requests={"cpu": "2600m"})
        if urgent:
            pod["spec"]["priorityClassName"] = "urgent"
        asked = zip(names, claims, strict=True)
        return [*(claim_body(name=name, storage_class=of, size=f"{size}Gi") for name, (of, size) in asked), pod]


def _class(name: str, pool: str) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {keys.CAPACITY_POOL: pool}},
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


@pytest.mark.level("s")
@pytest.mark.req("C16.in-flight", "C16.held", "C16.end")
@pytest.mark.parametrize("seed", seeds(8))
def test_what_the_scheduler_counts_as_free_is_free(seed: int) -> None:
    situation, auditor = everything(seed), everything(seed).audit
    check(situation.trial(auditor), seed=seed, plan=honest(draw(seed, situation.hazards())))
    assert auditor.compared > 50, "there was hardly anything to audit"


@pytest.mark.parametrize(("error", "rule"), [(GI, PROMISED_TWICE), (-GI, CHARGED_TWICE)])
def test_the_auditor_sees_a_scheduler_that_counts_wrong(error: int, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Scheduler.free_storage

    def wrong(scheduler: Scheduler) -> dict[str, int]:
        return {key: free + error for key, free in counted(scheduler).items()}

    monkeypatch.setattr(Scheduler, "free_storage", wrong)
    situation = everything(1)
    violation = run(situation.trial(situation.audit), seed=1, plan=CALM).violation
    assert violation is not None
    assert violation.rule == rule


def test_the_auditor_shares_no_code_with_what_it_audits() -> None:
    source = ast.parse(Path(audit.__file__).read_text())
    imported = [node.module or "" for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert not [name for name in imported if name.startswith(("mooring.volumes", "mooring.scheduler"))]
