"""Fault scenarios of the hold rollback: pods with several volumes that do not all fit on the first node."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from msgspec import structs

from mooring.api import well_known
from mooring.api.kinds import NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Volume
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.storage import NAMESPACE
from mooring.coordinator.component import Coordinator
from mooring.provisioner.component import Provisioner
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import objects
from support.builders import Body, claim_body, pod_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario
from support.simulation.faults import FaultLimits
from support.simulation.history import Written
from support.simulation.invariants import ALWAYS, Facts, Step, Subject, Violation
from support.simulation.scenarios import BINDER, NODES, SCHEDULER, all_pods_run, no_expectation
from support.simulation.storage import HostpathStorage, storage_differences

PROVISIONER: Final = Provisioner.name
COORDINATOR: Final = Coordinator.name
GI: Final = 2**30
SMALL, LARGE = "node-1", "node-2"
#: All faults of all components that take part in the hold protocol.
FAULT_LIMITS: Final = FaultLimits(
    (PROVISIONER,) * 4 + (COORDINATOR,) * 3 + (SCHEDULER, SCHEDULER, BINDER, NODES),
    bad_calls=10,
    bad_watches=4,
    bad_writes=3,
    rpc_instances=(PROVISIONER,),
    rpcs=("create_volume", "create_volume", "delete_volume"),
    bad_rpcs=4,
    crashes=4,
    pauses=1,
    restarts=1,
    calls=40,
    writes=20,
    all_writes=100,
    seconds=30.0,
)
#: Without invalid responses: of a volume that is not held, one of two provisioners may delete what the other has just
#: recorded, as with external-provisioner. They need leader election.
TWO_PROVISIONERS: Final = structs.replace(FAULT_LIMITS, duplicates=(PROVISIONER,), bad_rpcs=0)
#: Two coordinators with different watch progress may commit half of a group: safe, but not all or nothing.
TWO_COORDINATORS: Final = structs.replace(TWO_PROVISIONERS, duplicates=(PROVISIONER, COORDINATOR))


class Squeeze(NamedTuple):
    """A pod with volumes of these sizes (GiB), all of which fit on the large node, and not all of them on the small one
    that is tried first. No capacity is published."""

    sizes: tuple[int, ...] = (4, 4)
    #: GiB of the small node's 10 that are used before.
    taken: int = 4
    #: Additional claims on existing volumes.
    existing: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(nodes=2, local_volumes=self.existing)

    @property
    def claims(self) -> list[str]:
        return [f"claim-{number}" for number in range(len(self.sizes) + self.existing)]

    def scenario(
        self,
        *,
        rollback: bool = True,
        leaving: bool = False,
        together: bool = True,
        fault_seconds: float = 2.0,
        settle: float = 40.0,
    ) -> FaultScenario:
        """`leaving`: users delete pods and claims; `together`: volumes are committed all or none."""
        storage = HostpathStorage(self.layout, rollback=rollback, published=False, fast=10 * GI)
        rules = (*ALWAYS, committed_stays, *((committed_together,) if rollback and together else ()))
        return FaultScenario(
            self.layout,
            partial(self.apply, storage, rollback=rollback, leaving=leaving),
            rules=rules,
            fault_seconds=fault_seconds,
            settle=settle,
            expect=no_expectation if leaving else partial(all_pods_run, count=2) if rollback else half_of_claims_bound,
            inspect=(settled if together else no_committed_volume_lost) if rollback else nothing,
            extra_components=storage.extra_components,
            can_provision=storage.can_provision if rollback else cannot_provision,
        )

    async def apply(
        self, storage: HostpathStorage, cluster: SimulatedCluster, *, rollback: bool, leaving: bool
    ) -> None:
        """Try the small node first; afterwards only the large one is schedulable."""
        tried = Seen(cluster, _is_rolling_back if rollback else _was_bound)
        await cordon(cluster, LARGE)
        for body in (*storage.objects(), *self._occupant()):
            await simulated.create(cluster, body)
        assert await cluster.until(partial(_runs, cluster, "occupant"), within=200.0), "the occupant does not run"
        for body in self._pod():
            await simulated.create(cluster, body)
        is_tried = await cluster.until(tried.yet, within=30.0 if leaving else 200.0)
        # Race: a scheduler with stale nodes may select the large one at once.
        assert is_tried or leaving or await _runs(cluster, "squeezed"), "nothing was tried on the small node"
        await cordon(cluster, LARGE, on=False)
        await cordon(cluster, SMALL)

    def _occupant(self) -> Iterable[Body]:
        yield claim_body(name="occupant", storage_class="fast", size=f"{self.taken}Gi")
        yield pod_body(name="occupant", claims=("occupant",), node_selector={well_known.HOSTNAME: SMALL})

    def _pod(self) -> Iterable[Body]:
        for name, size in zip(self.claims, self.sizes, strict=False):
            yield claim_body(name=name, storage_class="fast", size=f"{size}Gi")
        for name in self.claims[len(self.sizes) :]:
            yield claim_body(name=name, storage_class=LOCAL_CLASS, size="1Gi")
        yield pod_body(name="squeezed", claims=tuple(self.claims))


class OpenNodes(NamedTuple):
    """As `Squeeze`, with every node open all the time: of three nodes, these have no capacity for both volumes, and the
    others have less free CPU, so that the scheduler chooses them last. No capacity is published."""

    full: tuple[str, ...] = ("node-1", "node-2")

    @property
    def layout(self) -> Layout:
        return Layout(nodes=3, local_volumes=0)

    def scenario(self, *, fault_seconds: float = 2.0) -> FaultScenario:
        storage = HostpathStorage(self.layout, rollback=True, published=False, fast=10 * GI)
        return FaultScenario(
            self.layout,
            partial(self.apply, storage),
            rules=(*ALWAYS, committed_stays, committed_together),
            fault_seconds=fault_seconds,
            settle=700.0,
            expect=partial(all_pods_run, count=4),
            inspect=settled,
            extra_components=storage.extra_components,
            can_provision=storage.can_provision,
        )

    async def apply(self, storage: HostpathStorage, cluster: SimulatedCluster) -> None:
        tried = Seen(cluster, _is_rolling_back)
        for body in storage.objects():
            await simulated.create(cluster, body)
        others = {node: f"occupant-of-{node}" for node in ("node-1", "node-2", "node-3")}
        for node, name in others.items():
            where = {well_known.HOSTNAME: node}
            if node in self.full:
                await simulated.create(cluster, claim_body(name=name, storage_class="fast", size="4Gi"))
                await simulated.create(cluster, pod_body(name=name, claims=(name,), node_selector=where))
            else:
                await simulated.create(cluster, pod_body(name=name, requests={"cpu": "3"}, node_selector=where))
        for name in others.values():
            assert await cluster.until(partial(_runs, cluster, name), within=200.0), f"{name} does not run"
        for name in ("claim-0", "claim-1"):
            await simulated.create(cluster, claim_body(name=name, storage_class="fast", size="4Gi"))
        await simulated.create(cluster, pod_body(name="squeezed", claims=("claim-0", "claim-1")))
        is_tried = await cluster.until(tried.yet, within=200.0)
        # A fault may keep the scheduler from a full node.
        assert is_tried or await _runs(cluster, "squeezed"), "no volume was rolled back"


async def _runs(cluster: SimulatedCluster, name: str) -> bool:
    return (await cluster.client.get(POD, name, namespace="default")).status.phase == "Running"


class Seen:
    """Whether a volume ever matched."""

    def __init__(self, cluster: SimulatedCluster, matches: Callable[[Volume], bool]) -> None:
        self._matches = matches
        self._seen = False
        cluster.history.on_write(self._look)

    def _look(self, written: Written) -> None:
        if written.kind is VOLUME and written.change.after is not None:
            volume = VOLUME.decode(written.change.after.value)
            self._seen = self._seen or self._matches(volume)

    async def yet(self) -> bool:
        return self._seen


def _is_rolling_back(volume: Volume) -> bool:
    return hold_state(volume, hold_namespace=NAMESPACE) is HoldState.ROLLING_BACK


def _was_bound(volume: Volume) -> bool:
    reference = volume.spec.claim_ref
    return volume.status.phase == "Bound" and reference is not None and reference.name.startswith("claim-")


async def cordon(cluster: SimulatedCluster, node: str, *, on: bool = True) -> None:
    await cluster.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": on or None}}))


def committed_stays(facts: Facts, step: Step) -> Iterator[Violation]:
    """A committed volume is never held again, nor rolled back."""
    before, after = step
    if not isinstance(before, Volume) or not isinstance(after, Volume):
        return
    was, now = (hold_state(volume, hold_namespace=NAMESPACE) for volume in (before, after))
    if was is HoldState.COMMITTED and now in (HoldState.HELD, HoldState.ROLLING_BACK):
        text = f"volume {after.name} was committed and is {now.value} now"
        yield Violation("committed stays committed", text, (Subject(VOLUME, after.name),))


def committed_together(facts: Facts, step: Step) -> Iterator[Violation]:
    """A held volume is committed only when a pod of its claim has all volumes, held or committed, on one node."""
    before, after = step
    if not isinstance(before, Volume) or not isinstance(after, Volume):
        return
    was, now = (hold_state(volume, hold_namespace=NAMESPACE) for volume in (before, after))
    if was is not HoldState.HELD or now is not HoldState.COMMITTED or after.spec.claim_ref is None:
        return
    key = f"{after.spec.claim_ref.namespace}/{after.spec.claim_ref.name}"
    node = before.metadata.annotations.get(objects.NODE, "")
    pods = [pod for pod in facts.pods.values() if key in pod.claim_keys]
    if pods and not any(_complete(facts, pod, node) for pod in pods):
        text = f"volume {after.name} was committed to {key} while its pod does not have all volumes on {node}"
        yield Violation("all or nothing", text, (Subject(VOLUME, after.name), Subject(POD, pods[0].key)))


def _complete(facts: Facts, pod: Pod, node: str) -> bool:
    had: dict[str, set[str]] = {}
    for volume in facts.volumes.values():
        reference = volume.spec.claim_ref
        uid = objects.held_for(volume, hold_namespace=NAMESPACE) or (reference.uid if reference is not None else "")
        if hold_state(volume, hold_namespace=NAMESPACE) is not HoldState.ROLLING_BACK:
            where = volume.metadata.annotations.get(objects.NODE, node)
            had.setdefault(uid, set()).add(where)
    return all(node in had.get(claim.uid, ()) for claim in facts.claims_of(pod))


async def settled(cluster: SimulatedCluster) -> Iterable[Violation]:
    """The driver and the API agree, and no volume is held."""
    found = list(await storage_differences(cluster))
    for volume in (await cluster.client.list(VOLUME)).items:
        state = hold_state(volume, hold_namespace=NAMESPACE)
        if state in (HoldState.HELD, HoldState.ROLLING_BACK):
            found.append(Violation("holds end", f"volume {volume.name} is still {state.value}", ()))
    return found


async def no_committed_volume_lost(cluster: SimulatedCluster) -> Iterable[Violation]:
    """Holds even for a pod with half of its volumes that is retried without end: attempts and rollbacks may be in
    progress, but committed volumes exist and none is leaked."""
    under_way = {
        volume.name
        for volume in (await cluster.client.list(VOLUME)).items
        if hold_state(volume, hold_namespace=NAMESPACE) is HoldState.ROLLING_BACK
    }
    found = [
        each for each in await storage_differences(cluster) if each.rule in ("no volume is leaked", "no volume is lost")
    ]
    return [each for each in found if not {subject.key for subject in each.objects} & under_way]


async def nothing(_: SimulatedCluster) -> Iterable[Violation]:
    return ()


def cannot_provision(*_: object) -> bool:
    return False


def half_of_claims_bound(facts: Facts) -> Iterable[Violation]:
    """Without rollback: one volume is bound, and prevents the pod from getting the other."""
    claims = [claim for claim in facts.claims.values() if claim.name != "occupant"]
    pod = facts.pods["default/squeezed"]
    if sum(claim.fully_bound for claim in claims) != len(claims) - 1 or pod.spec.node_name:
        yield Violation("the pod is stuck", f"{[claim.status.phase for claim in claims]}", (Subject(POD, pod.key),))


def leaving(squeeze: Squeeze, limits: FaultLimits) -> FaultLimits:
    """The limits, and users who delete the pod and its claims at any time."""
    claims = tuple(("persistentvolumeclaims", f"default/{name}") for name in squeeze.claims)
    return structs.replace(limits, deletable=(("pods", "default/squeezed"), *claims), deletions=len(claims) + 1)
