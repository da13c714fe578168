"""Claims are said to be used before they are, and not used while they are given up."""

from collections.abc import Callable

import pytest

from mooring.api.kinds import CLAIM
from mooring.control.component import Context
from mooring.control.feature_gates import FeatureGates, FeatureRollout, parse_feature_gates
from mooring.nodeagent.pod_worker import ClaimUseRecorder
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, is_clean
from support.builders import a_pod, claim_body
from support.scheduler.cluster import SmallWorld, in_world

POD = a_pod(claims=["data"], node="n1")


def a_use(world: SmallWorld, gates: FeatureGates, rollout: FeatureRollout | None = None) -> ClaimUseRecorder:
    context = world.context
    return ClaimUseRecorder(
        Context(world.client, world.informers, world.recorder, world.clock, context.rng, gates, rollout=rollout)
    )


def clean_claim(**annotations: str) -> dict[str, object]:
    body = claim_body(name="data", annotations=annotations)
    body["status"]["conditions"] = [{"type": CLEAN, "status": "True"}]
    return body


@pytest.mark.parametrize("gates", ["ClaimRollback=true", "ClaimRollback=false"])
def test_a_clean_claim_is_called_used_whatever_the_gate_says(gates: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(CLAIM, clean_claim())
        use = a_use(world, parse_feature_gates(gates))
        await world.settle()
        await use.mark_dirty(POD)
        await use.mark_dirty(a_pod(claims=["gone"], node="n1"))
        await world.settle()
        claim = world.informers.of(CLAIM).get("default/data")
        assert claim is not None
        assert not is_clean(claim)
        assert world.client.writes == ["patch persistentvolumeclaims/data/status"]
        await use.mark_dirty(POD)
        assert len(world.client.writes) == 1, "once is enough"

    in_world(scenario)


@pytest.mark.parametrize(
    ("gates", "rollout", "refused"),
    [
        pytest.param("ClaimRollback=true", None, True, id="gate on"),
        pytest.param("ClaimRollback=false", None, False, id="gate off"),
        pytest.param("ClaimRollback=true", FeatureRollout(), False, id="held back"),
    ],
)
def test_a_claim_that_is_given_up_is_not_used(gates: str, rollout: FeatureRollout | None, refused: bool) -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(CLAIM, clean_claim(**{ROLLBACK: "yes"}))
        use = a_use(world, parse_feature_gates(gates), rollout)
        await world.settle()
        found = await use.rollback_in_progress(POD)
        assert (found is not None) is refused
        if found is not None:
            assert found.message == "PVC default/data is being rolled back"

    in_world(scenario)


def _bound_again(world: SmallWorld) -> None:
    world.change(CLAIM, "data", {"metadata": {"annotations": {ROLLBACK: None}}})


def _deleted(world: SmallWorld) -> None:
    world.delete(CLAIM, "data")


@pytest.mark.parametrize("meanwhile", [pytest.param(_bound_again, id="bound again"), pytest.param(_deleted, id="gone")])
def test_a_refusal_is_not_made_on_old_news(meanwhile: Callable[[SmallWorld], None]) -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(CLAIM, clean_claim(**{ROLLBACK: "yes"}))
        use = a_use(world, parse_feature_gates("ClaimRollback=true"))
        await world.settle()
        meanwhile(world)  # the informer has no chance to hear of it
        assert await use.rollback_in_progress(POD) is None

    in_world(scenario)
