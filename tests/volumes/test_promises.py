"""Promises: what is decided counts at once, and is taken back without a trace."""

import pytest

from builders import a_claim, a_volume, claim_ref
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.volumes.assume import OutOfSync
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.state import NOTHING_TO_BIND

pytestmark = [pytest.mark.req("T13"), pytest.mark.level("u")]

SMALL = a_claim(name="small", size="1G")
LARGE = a_claim(name="large", size="5G")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")


def test_a_promised_volume_reads_as_it_will_once_written() -> None:
    world = VolumeWorld(SMALL, N1A)

    promised = world.state.assume(world.plan("small", node="n1"))

    volume = promised.static[0].volume
    assert volume is world.state.volume("n1a")
    assert volume.spec.claim_ref == SMALL.reference
    assert keys.BOUND_BY_CONTROLLER in volume.metadata.annotations
    assert volume.metadata.resource_version == N1A.metadata.resource_version


def test_later_decisions_do_not_choose_it() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A)

    promised = world.state.assume(world.plan("small", node="n1"))
    assert world.rejected("large") == {NOTHING_TO_BIND: {"n1", "n2"}}
    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}

    world.state.restore(promised)
    world.state.restore(promised)
    assert world.rejected("large") == {NOTHING_TO_BIND: {"n2"}}
    assert world.state.volume("n1a") is N1A


def test_a_volume_the_user_reserved_gets_its_uid_but_no_annotation() -> None:
    world = VolumeWorld(SMALL, a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small")))

    promised = world.state.assume(world.plan("small", node="n1"))

    volume = promised.static[0].volume
    assert volume.spec.claim_ref == SMALL.reference
    assert volume.metadata.annotations == {}


def test_what_the_api_says_ends_the_promise() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A)
    world.state.assume(world.plan("small", node="n1"))

    world.state.observe_volume(N1A, a_volume(name="n1a", size="5G", node="n1", version="2"))

    assert world.rejected("large") == {NOTHING_TO_BIND: {"n2"}}


def test_a_plan_that_was_overtaken_promises_nothing() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A, N1B)
    plan = world.plan("small", "large", node="n1")
    world.state.observe_volume(N1B, a_volume(name="n1b", size="10G", node="n1", version="2"))

    with pytest.raises(OutOfSync, match=r'"n1b" is out of sync \(stored: 2, assume: 1\)'):
        world.state.assume(plan)

    assert world.state.volume("n1a") is N1A
    assert world.rejected("small", "large") == {NOTHING_TO_BIND: {"n2"}}


def test_of_two_plans_for_one_volume_the_second_fails() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A)
    first, second = world.plan("small", node="n1"), world.plan("large", node="n1")
    world.state.assume(first)

    with pytest.raises(OutOfSync, match="already assumed otherwise"):
        world.state.assume(second)

    assert world.rejected("small") == {NOTHING_TO_BIND: {"n2"}}


def test_a_second_pod_with_the_claim_does_not_take_the_first_ones_promise_back() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A)
    world.state.assume(world.plan("small", node="n1"))

    second = world.state.assume(world.plan("small", node="n1"))
    world.state.restore(second)

    assert world.rejected("large") == {NOTHING_TO_BIND: {"n1", "n2"}}


def test_claims_to_be_provisioned_carry_the_node_until_restored() -> None:
    world = VolumeWorld(SMALL)
    plan = BindingPlan("n1", provision=(Provisioning(SMALL),))

    promised = world.state.assume(plan)
    assert world.claims("small").selected[0].claim.selected_node == "n1"
    world.state.restore(promised)

    assert world.state.claim("default/small") is SMALL


def test_a_claim_that_changed_takes_all_promises_of_the_plan_back() -> None:
    world = VolumeWorld(SMALL, LARGE, N1A)
    plan = BindingPlan("n1", (StaticBinding(SMALL, N1A),), (Provisioning(LARGE),))
    world.state.observe_claim(LARGE, a_claim(name="large", size="5G", version="2"))

    with pytest.raises(OutOfSync, match='"default/large"'):
        world.state.assume(plan)

    assert world.state.volume("n1a") is N1A
