"""Pods that unused claims keep from every node, and what must hold while those are unbound."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import structs

from builders import Body
from mooring.api.kinds import CLAIM, NODE, POD
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.cluster.bootstrap import LOCAL_CLASS, Layout
from mooring.control.feature_gates import parse
from mooring.nodeagent.heartbeat import POWER
from mooring.provisioner.component import Provisioner
from mooring.sim.facts import Facts, Step, Subject
from mooring.sim.hazards import Hazards
from mooring.sim.invariants import ALWAYS, Rule, Violation, bound_for_good
from mooring.sim.storage import Hostpaths, accounts
from mooring.sim.trial import Trial
from mooring.sim.world import World
from mooring.volumes.clean_claims import is_clean, is_near, may_unbind, rolls_back
from scenarios import in_world
from sim.rollback_trials import GI, LARGE, SMALL, Squeeze, makes_nothing
from sim.trials import BINDER, NODES, SCHEDULER, everybody_runs

PROVISIONER: Final = Provisioner.name
#: Volumes are given one by one, as without Mooring; what is not used can be taken back.
ALONE: Final = "ProvisioningRollback=false,ClaimRollback=true"
ROUGH: Final = Hazards(
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


#: Two of those who write: an old leader that has not heard of its end.
TWINS: Final = structs.replace(ROUGH, twins=(SCHEDULER, BINDER, NODES))


def unbound_only_if_unused(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim loses its volume only while it is clean and marked, and nobody is near; and gets no other one with it."""
    before, claim = step
    if not isinstance(before, Claim) or not isinstance(claim, Claim) or not before.fully_bound or claim.fully_bound:
        return
    near = [pod.key for pod in facts.pods.values() if claim.key in pod.claim_keys and is_near(pod)]
    if claim.spec.volume_name or not may_unbind(before) or near:
        text = f"claim {claim.key} lost volume {before.spec.volume_name}; near it: {near}"
        yield Violation("unbound only if unused", text, (Subject(CLAIM, claim.key),))


def dirty_stays(facts: Facts, step: Step) -> Iterator[Violation]:
    """A claim that has a volume and is not clean does not become so."""
    before, claim = step
    if not isinstance(before, Claim) or not isinstance(claim, Claim) or not before.spec.volume_name:
        return
    if is_clean(claim) and not is_clean(before):
        yield Violation("dirty stays dirty", f"claim {claim.key} is clean again", (Subject(CLAIM, claim.key),))


def dirty_before_use(facts: Facts, step: Step) -> Iterator[Violation]:
    """What a pod runs with is not called clean any more."""
    before, pod = step
    ran = isinstance(before, Pod) and before.status.phase == "Running"
    if isinstance(pod, Pod) and pod.status.phase == "Running" and not ran:
        for claim in facts.claims_of(pod):
            if is_clean(claim):
                text = f"pod {pod.key} runs with claim {claim.key}, which says that nobody has used it"
                yield Violation("dirty before use", text, (Subject(POD, pod.key), Subject(CLAIM, claim.key)))


RULES: Final[tuple[Rule, ...]] = (
    *(rule for rule in ALWAYS if rule is not bound_for_good),
    unbound_only_if_unused,
    dirty_stays,
    dirty_before_use,
)


def half_bound(*, rough: float = 20.0, settle: float = 60.0) -> Trial:
    """A pod whose first volume was given to it on a node that has no room for the second; nobody holds volumes."""
    squeeze = Squeeze()
    storage = Hostpaths(squeeze.layout, rollback=False, published=False, fast=10 * GI)
    return Trial(
        squeeze.layout,
        partial(squeeze.apply, storage, rollback=False, leaving=False),
        rules=RULES,
        rough=rough,
        settle=settle,
        expect=partial(everybody_runs, count=2),
        inspect=settled,
        annex=storage.annex,
        gates=parse(ALONE),
        make=makes_nothing,
    )


def refused(*, rough: float = 20.0, settle: float = 60.0) -> Trial:
    """The pod of a set that its node refuses once its claim is bound there: the node is not what it was."""
    layout = Layout(nodes=2, local_volumes=1)
    return Trial(
        layout,
        _refused,
        rules=RULES,
        rough=rough,
        settle=settle,
        expect=partial(everybody_runs, count=1),
        inspect=nothing_marked,
        gates=parse(ALONE),
    )


async def _refused(world: World) -> None:
    """The node loses its power while the pod is placed there, and comes back with another label."""
    wanted = {"disk": "fast"}
    await label(world, SMALL, wanted)
    await power(world, SMALL, on=False)
    await world.clock.sleep(1.0)
    await in_world.create(world, _replicas())
    assert await world.until(partial(_is_placed, world), within=200.0), "the pod is not placed"
    await label(world, SMALL, {"disk": None})
    await label(world, LARGE, wanted)
    await power(world, SMALL, on=True)


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


async def _is_placed(world: World) -> bool:
    pods = (await world.client.list(POD)).items
    return any(pod.spec.node_name == SMALL for pod in pods)


async def label(world: World, node: str, labels: Mapping[str, str | None]) -> None:
    await world.client.patch(NODE, node, MergePatch({"metadata": {"labels": labels}}))


async def power(world: World, node: str, *, on: bool) -> None:
    notes = {POWER: None if on else "off"}
    await world.client.patch(NODE, node, MergePatch({"metadata": {"annotations": notes}}))


async def settled(world: World) -> Iterable[Violation]:
    """The driver's own list and the API agree, and nothing is being unbound any more."""
    return [*await accounts(world), *[each async for each in _marked(world)]]


async def nothing_marked(world: World) -> Iterable[Violation]:
    return [each async for each in _marked(world)]


async def _marked(world: World) -> AsyncIterator[Violation]:
    for claim in (await world.client.list(CLAIM)).items:
        if rolls_back(claim):
            yield Violation("rollbacks end", f"claim {claim.key} is still marked", (Subject(CLAIM, claim.key),))
