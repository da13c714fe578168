"""Pods that need several volumes where a node has room for only some, and what must hold while that is undone."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from msgspec import structs

from builders import Body, claim_body, pod_body
from mooring.api import keys
from mooring.api.kinds import NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.cluster.storage import NAMESPACE
from mooring.coordinator.component import Coordinator
from mooring.provisioner.component import Provisioner
from mooring.sim.facts import Facts, Step, Subject
from mooring.sim.hazards import Hazards
from mooring.sim.history import Written
from mooring.sim.invariants import ALWAYS, Violation
from mooring.sim.storage import Hostpaths, accounts
from mooring.sim.trial import Trial
from mooring.sim.world import World
from mooring.volumes.holds import objects
from mooring.volumes.plan import HoldState, hold_state
from scenarios import in_world
from sim.trials import BINDER, NODES, SCHEDULER, everybody_runs, nothing_more

PROVISIONER: Final = Provisioner.name
COORDINATOR: Final = Coordinator.name
GI: Final = 2**30
SMALL, LARGE = "node-1", "node-2"
#: Everybody who takes part in the protocol, and everything that may happen to them.
ROUGH: Final = Hazards(
    (PROVISIONER,) * 4 + (COORDINATOR,) * 3 + (SCHEDULER, SCHEDULER, BINDER, NODES),
    bad_calls=10,
    bad_watches=4,
    bad_writes=3,
    callers=(PROVISIONER,),
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
#: Without wrong answers: of a volume that is not held, one of two provisioners may delete as unusable what the other
#: has just saved, as upstream's may. They need the lease.
TWO_PROVISIONERS: Final = structs.replace(ROUGH, twins=(PROVISIONER,), bad_rpcs=0)
#: Two coordinators with different news may give half of a group: safe, but not all or nothing.
TWO_COORDINATORS: Final = structs.replace(TWO_PROVISIONERS, twins=(PROVISIONER, COORDINATOR))


class Squeeze(NamedTuple):
    """A pod with volumes of these sizes (GiB), all of which fit on the large node, and not all of them on the small one
    that it is sent to first. Schedulers know nothing of room."""

    sizes: tuple[int, ...] = (4, 4)
    #: How much of the small node's ten gibibytes is taken before.
    taken: int = 4
    #: How many claims on existing volumes the pod has besides.
    existing: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(nodes=2, local_volumes=self.existing)

    @property
    def claims(self) -> list[str]:
        return [f"claim-{number}" for number in range(len(self.sizes) + self.existing)]

    def trial(
        self,
        *,
        rollback: bool = True,
        leaving: bool = False,
        together: bool = True,
        rough: float = 2.0,
        settle: float = 40.0,
    ) -> Trial:
        """`leaving` is for users who delete pods and claims meanwhile, `together` promises all or nothing."""
        storage = Hostpaths(self.layout, rollback=rollback, published=False, fast=10 * GI)
        rules = (*ALWAYS, committed_stays, *((given_together,) if rollback and together else ()))
        return Trial(
            self.layout,
            partial(self.apply, storage, rollback=rollback, leaving=leaving),
            rules=rules,
            rough=rough,
            settle=settle,
            expect=nothing_more if leaving else partial(everybody_runs, count=2) if rollback else half_is_bound,
            inspect=(settled if together else nothing_given_is_lost) if rollback else nothing,
            annex=storage.annex,
            make=storage.make if rollback else makes_nothing,
        )

    async def apply(self, storage: Hostpaths, world: World, *, rollback: bool, leaving: bool) -> None:
        """The small node has been tried, and from now on only the large one takes pods."""
        tried = Seen(world, _was_given_up if rollback else _was_bound)
        await cordon(world, LARGE)
        for body in (*storage.objects(), *self._occupant()):
            await in_world.create(world, body)
        assert await world.until(partial(_runs, world, "occupant"), within=200.0), "the small node is still empty"
        for body in self._pod():
            await in_world.create(world, body)
        is_tried = await world.until(tried.yet, within=30.0 if leaving else 200.0)
        # A scheduler with old news of nodes may have chosen the large one at once.
        assert is_tried or leaving or await _runs(world, "squeezed"), "nothing was tried on the small node"
        await cordon(world, LARGE, on=False)
        await cordon(world, SMALL)

    def _occupant(self) -> Iterable[Body]:
        yield claim_body(name="occupant", storage_class="fast", size=f"{self.taken}Gi")
        yield pod_body(name="occupant", claims=("occupant",), node_selector={keys.HOSTNAME: SMALL})

    def _pod(self) -> Iterable[Body]:
        for name, size in zip(self.claims, self.sizes, strict=False):
            yield claim_body(name=name, storage_class="fast", size=f"{size}Gi")
        for name in self.claims[len(self.sizes) :]:
            yield claim_body(name=name, storage_class=LOCAL_CLASS, size="1Gi")
        yield pod_body(name="squeezed", claims=tuple(self.claims))


async def _runs(world: World, name: str) -> bool:
    return (await world.client.get(POD, name, namespace="default")).status.phase == "Running"


class Seen:
    """Whether a write of some kind has happened."""

    def __init__(self, world: World, matches: Callable[[Volume], bool]) -> None:
        self._matches = matches
        self._seen = False
        world.history.on_write(self._look)

    def _look(self, written: Written) -> None:
        if written.kind is VOLUME and written.change.after is not None:
            volume = VOLUME.decode(written.change.after.value)
            self._seen = self._seen or self._matches(volume)

    async def yet(self) -> bool:
        return self._seen


def _was_given_up(volume: Volume) -> bool:
    return hold_state(volume, hold_namespace=NAMESPACE) is HoldState.ROLLING_BACK


def _was_bound(volume: Volume) -> bool:
    reference = volume.spec.claim_ref
    return volume.status.phase == "Bound" and reference is not None and reference.name.startswith("claim-")


async def cordon(world: World, node: str, *, on: bool = True) -> None:
    await world.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": on or None}}))


def committed_stays(facts: Facts, step: Step) -> Iterator[Violation]:
    """What a claim was given is never held again, nor rolled back."""
    before, after = step
    if not isinstance(before, Volume) or not isinstance(after, Volume):
        return
    was, now = (hold_state(volume, hold_namespace=NAMESPACE) for volume in (before, after))
    if was is HoldState.COMMITTED and now in (HoldState.HELD, HoldState.ROLLING_BACK):
        text = f"volume {after.name} belonged to a claim and is {now.value} now"
        yield Violation("committed stays committed", text, (Subject(VOLUME, after.name),))


def given_together(facts: Facts, step: Step) -> Iterator[Violation]:
    """A held volume is given only when a pod that wants it has all its volumes, held or given, on one node."""
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
        text = f"volume {after.name} was given to {key} while its pod does not have all volumes on {node}"
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


async def settled(world: World) -> Iterable[Violation]:
    """The driver's own list and the API agree, and nothing is held any more."""
    found = list(await accounts(world))
    for volume in (await world.client.list(VOLUME)).items:
        state = hold_state(volume, hold_namespace=NAMESPACE)
        if state in (HoldState.HELD, HoldState.ROLLING_BACK):
            found.append(Violation("holds end", f"volume {volume.name} is still {state.value}", ()))
    return found


async def nothing_given_is_lost(world: World) -> Iterable[Violation]:
    """What must be true even of a pod that got half of its volumes and is tried for ever: attempts and rollbacks may be
    under way, but what was given is there, and nothing is without a name."""
    under_way = {
        volume.name
        for volume in (await world.client.list(VOLUME)).items
        if hold_state(volume, hold_namespace=NAMESPACE) is HoldState.ROLLING_BACK
    }
    found = [each for each in await accounts(world) if each.rule in ("no volume is leaked", "no volume is lost")]
    return [each for each in found if not {subject.key for subject in each.objects} & under_way]


async def nothing(_: World) -> Iterable[Violation]:
    return ()


def makes_nothing(*_: object) -> bool:
    return False


def half_is_bound(facts: Facts) -> Iterable[Violation]:
    """What happens without the rollback: one volume was given, and keeps the pod from ever having the other."""
    claims = [claim for claim in facts.claims.values() if claim.name != "occupant"]
    pod = facts.pods["default/squeezed"]
    if sum(claim.fully_bound for claim in claims) != len(claims) - 1 or pod.spec.node_name:
        yield Violation("the pod is stuck", f"{[claim.status.phase for claim in claims]}", (Subject(POD, pod.key),))


def leaving(squeeze: Squeeze, hazards: Hazards) -> Hazards:
    """The hazards, and users who delete the pod and its claims at any moment."""
    claims = tuple(("persistentvolumeclaims", f"default/{name}") for name in squeeze.claims)
    return structs.replace(hazards, deletable=(("pods", "default/squeezed"), *claims), deletions=len(claims) + 1)
