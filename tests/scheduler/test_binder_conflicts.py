"""Several writes of which one fails: what was written stays written, what was not is left alone."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from mooring.volumes.binding import BindingPlan, Provisioning, StaticBinding
from scheduler.binding.test_binder import Bound
from support.builders import claim_body, volume_body
from support.scheduler.cluster import SmallWorld, in_world

pytestmark = [pytest.mark.req("T16.conflict"), pytest.mark.level("s")]

TOUCHED = {"metadata": {"labels": {"touched": "yes"}}}


def claim_ref_of(world: SmallWorld, volume: str) -> str:
    return str(world.body(VOLUME, volume)["spec"].get("claimRef", {}).get("name", ""))


def selected_node_of(world: SmallWorld, claim: str) -> str | None:
    notes: dict[str, str] = world.body(CLAIM, claim)["metadata"].get("annotations", {})
    return notes.get(well_known.SELECTED_NODE)


def test_the_second_volume_changed_meanwhile() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        second = world.put(CLAIM, claim_body(name="claim-2"))
        spare = world.put(VOLUME, volume_body(name="volume-2", node="n1"))
        promised = StaticBinding(second, spare.assumed_for(second.reference, by_controller=True))
        plan = BindingPlan("n1", static=(*one.static.static, promised))
        world.change(VOLUME, "volume-2", TOUCHED)

        said = await (await one.start(plan))

        assert 'Operation cannot be fulfilled on persistentvolumes "volume-2"' in said
        assert claim_ref_of(world, "volume-1") == "claim-1"
        assert claim_ref_of(world, "volume-2") == ""

    in_world(scenario)


def test_the_second_claim_to_be_provisioned_changed_meanwhile() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        second = world.put(CLAIM, claim_body(name="claim-2"))
        plan = BindingPlan("n1", provision=(Provisioning(one.claim), Provisioning(second)))
        world.change(CLAIM, "claim-2", TOUCHED)

        said = await (await one.start(plan))

        assert 'Operation cannot be fulfilled on persistentvolumeclaims "claim-2"' in said
        assert selected_node_of(world, "claim-1") == "n1"
        assert selected_node_of(world, "claim-2") is None

    in_world(scenario)


def test_a_volume_is_given_but_a_claim_changed_meanwhile() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        claims = [world.put(CLAIM, claim_body(name=name)) for name in ("claim-2", "claim-3")]
        plan = BindingPlan("n1", one.static.static, tuple(Provisioning(claim) for claim in claims))
        world.change(CLAIM, "claim-3", TOUCHED)

        said = await (await one.start(plan))

        assert 'Operation cannot be fulfilled on persistentvolumeclaims "claim-3"' in said
        assert claim_ref_of(world, "volume-1") == "claim-1"
        assert selected_node_of(world, "claim-2") == "n1"
        assert selected_node_of(world, "claim-3") is None

    in_world(scenario)


def test_what_is_written_already_is_written_again_without_harm() -> None:
    async def scenario(world: SmallWorld) -> None:
        one = Bound(world)
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "claim-1",
            "uid": one.claim.uid,
        }
        one.volume = world.change(VOLUME, "volume-1", {"spec": {"claimRef": reference}})
        task = await one.start(BindingPlan("n1", static=(StaticBinding(one.claim, one.volume),)))
        world.finish_binding("claim-1", "volume-1")

        assert await task == ""
        assert world.node_of("pod-1") == "n1"

    in_world(scenario)
