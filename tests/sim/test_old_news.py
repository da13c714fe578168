"""Components that decide on what was true a moment ago, and on promises that came to nothing."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from builders import Body, claim_body, class_body, pod_body, volume_body
from mooring.api import keys
from mooring.api.kinds import POD
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import BadCall, BadWatch, FaultPlan, Trouble, Twin, WatchTrouble
from mooring.sim.history import Noted
from mooring.sim.trial import Trial, check
from mooring.sim.world import World
from scenarios import in_world
from sim.trials import BINDER, SCHEDULER, everybody_runs


def arriving(*steps: tuple[float, Body]) -> Callable[[World], Awaitable[None]]:
    async def apply(world: World) -> None:
        for seconds, body in steps:
            await world.clock.sleep(seconds)
            await in_world.create(world, body)

    return apply


@pytest.mark.req("T35.no-lease")
@pytest.mark.parametrize("lost", range(2, 18, 2))
def test_a_pv_controller_with_old_news_takes_no_volume_from_a_claim(lost: int) -> None:
    """1. Two controllers know a free volume. 2. The first binds it to a claim; the second does not hear of that, and
    its own tries for that claim get lost. 3. Another claim comes: for the second controller the volume is free."""
    second = f"{BINDER}-2"
    apply = arriving(
        (0.0, class_body(name="now", binding_mode="Immediate")),
        (0.0, volume_body(storage_class="now", node="node-1")),
        (1.0, claim_body(name="first", storage_class="now")),
        (1.0, claim_body(name="second", storage_class="now")),
    )
    # Its watch of volumes is the third it opens; the volume and its first phase come through.
    deaf = BadWatch(second, watch=3, after=2, trouble=WatchTrouble.STALLED, seconds=8.0)
    dumb = [BadCall(second, call, Trouble.LOST_REQUEST) for call in range(1, lost)]
    outcome = check(
        Trial(Layout(local_volumes=0), apply), seed=0, plan=FaultPlan((Twin(BINDER, 0.0), deaf, *dumb), latency=0.001)
    )
    struck = [entry.what for entry in outcome.history.entries if isinstance(entry, Noted)]
    assert "watch persistentvolumes: the watch stood still" in struck
    [volume] = outcome.facts.volumes.values()
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.name == "first"


@pytest.mark.req("T6.class-seen-late")
def test_a_pv_controller_that_has_not_seen_the_class_yet_does_not_bind_before_the_pod_is_placed() -> None:
    """1. A class is created, which waits for consumers; the controller's news of classes stand still. 2. A claim of
    that class comes, and there is a volume where its pod cannot go."""
    apply = arriving(
        (0.0, class_body(name="later")),
        (0.0, volume_body(name="here", storage_class="later", node="node-1")),
        (0.0, volume_body(name="there", storage_class="later", node="node-2", size="20Gi")),
        (1.0, claim_body(storage_class="later")),
        (1.0, pod_body(claims=["claim-1"], node_selector={keys.HOSTNAME: "node-2"})),
    )
    # Its watch of classes is the second it opens; nothing comes through.
    deaf = BadWatch(BINDER, 2, 0, WatchTrouble.STALLED, seconds=5.0)
    outcome = check(
        Trial(Layout(nodes=2, local_volumes=0), apply, expect=partial(everybody_runs, count=1)),
        seed=0,
        plan=FaultPlan((deaf,), latency=0.001),
    )
    struck = [entry.what for entry in outcome.history.entries if isinstance(entry, Noted)]
    assert "watch storageclasses: the watch stood still" in struck
    assert outcome.facts.claims["default/claim-1"].spec.volume_name == "there"


@pytest.mark.req("T13.restored")
def test_a_volume_promised_in_vain_is_there_for_others() -> None:
    """1. A pod is promised both volumes. 2. The write of the first is overtaken: the second is never written. 3. The
    pod is deleted. 4. Another pod needs both volumes."""

    async def apply(world: World) -> None:
        claims = [claim_body(name=name) for name in ("a", "b", "c", "d")]
        await in_world.create(world, *claims, pod_body(name="first", claims=["a", "b"]))
        await world.clock.sleep(0.5)
        await world.client.delete(POD, "first", namespace="default", grace_seconds=0)
        await in_world.create(world, pod_body(name="second", claims=["c", "d"]))

    # A read, whether somebody coordinates, may come before the write.
    plan = FaultPlan(tuple(BadCall(SCHEDULER, call, Trouble.OVERTAKEN) for call in (1, 2)))
    outcome = check(Trial(Layout(nodes=1, local_volumes=2), apply), seed=0, plan=plan)
    [pod] = outcome.facts.pods.values()
    assert (pod.name, pod.status.phase) == ("second", "Running")
