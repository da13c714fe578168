"""Promises: what is decided counts at once, and is taken back without a trace."""

import pytest

from mooring.api import well_known
from mooring.volumes.binding import BindingPlan, OutOfSync, Provisioning, StaticBinding
from mooring.volumes.state import ConflictReason
from support.builders import a_claim, a_volume, claim_ref
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.level("u")]

SMALL = a_claim(name="small", size="1G")
LARGE = a_claim(name="large", size="5G")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")


@pytest.mark.req("T13.visible")
def test_a_promised_volume_reads_as_it_will_once_written() -> None:
    library = VolumeLibrary(SMALL, N1A)

    promised = library.state.assume(library.plan("small", node="n1"))

    volume = promised.static[0].volume
    assert volume is library.state.volume("n1a")
    assert volume.spec.claim_ref == SMALL.reference
    assert well_known.BOUND_BY_CONTROLLER in volume.metadata.annotations
    assert volume.metadata.resource_version == N1A.metadata.resource_version


@pytest.mark.req("T13.later-decisions")
def test_later_decisions_do_not_choose_it() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A)

    promised = library.state.assume(library.plan("small", node="n1"))
    assert library.rejected("large") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}
    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2"}}

    library.state.restore(promised)
    library.state.restore(promised)
    assert library.rejected("large") == {ConflictReason.NO_VOLUME: {"n2"}}
    assert library.state.volume("n1a") is N1A


@pytest.mark.req("T13.visible")
def test_a_volume_the_user_reserved_gets_its_uid_but_no_annotation() -> None:
    library = VolumeLibrary(SMALL, a_volume(name="mine", node="n1", claim_ref=claim_ref(name="small")))

    promised = library.state.assume(library.plan("small", node="n1"))

    volume = promised.static[0].volume
    assert volume.spec.claim_ref == SMALL.reference
    assert volume.metadata.annotations == {}


@pytest.mark.req("T14.newer-wins")
def test_what_the_api_says_ends_the_promise() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A)
    library.state.assume(library.plan("small", node="n1"))

    library.state.observe_volume(N1A, a_volume(name="n1a", size="5G", node="n1", version="2"))

    assert library.rejected("large") == {ConflictReason.NO_VOLUME: {"n2"}}


@pytest.mark.req("T13.validated")
def test_a_plan_that_was_overtaken_promises_nothing() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A, N1B)
    plan = library.plan("small", "large", node="n1")
    library.state.observe_volume(N1B, a_volume(name="n1b", size="10G", node="n1", version="2"))

    with pytest.raises(OutOfSync, match=r'"n1b" is out of sync \(stored: 2, assume: 1\)'):
        library.state.assume(plan)

    assert library.state.volume("n1a") is N1A
    assert library.rejected("small", "large") == {ConflictReason.NO_VOLUME: {"n2"}}


@pytest.mark.req("T13.validated")
def test_of_two_plans_for_one_volume_the_second_fails() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A)
    first, second = library.plan("small", node="n1"), library.plan("large", node="n1")
    library.state.assume(first)

    with pytest.raises(OutOfSync, match="already assumed otherwise"):
        library.state.assume(second)

    assert library.rejected("small") == {ConflictReason.NO_VOLUME: {"n2"}}


@pytest.mark.req("T13.restored")
def test_a_second_pod_with_the_claim_does_not_take_the_first_ones_promise_back() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A)
    library.state.assume(library.plan("small", node="n1"))

    second = library.state.assume(library.plan("small", node="n1"))
    library.state.restore(second)

    assert library.rejected("large") == {ConflictReason.NO_VOLUME: {"n1", "n2"}}


@pytest.mark.req("T13.visible", "T13.restored")
def test_claims_to_be_provisioned_carry_the_node_until_restored() -> None:
    library = VolumeLibrary(SMALL)
    plan = BindingPlan("n1", provision=(Provisioning(SMALL),))

    promised = library.state.assume(plan)
    assert library.claims("small").provisioning[0].claim.selected_node == "n1"
    library.state.restore(promised)

    assert library.state.claim("default/small") is SMALL


@pytest.mark.req("T13.validated")
def test_a_claim_that_changed_takes_all_promises_of_the_plan_back() -> None:
    library = VolumeLibrary(SMALL, LARGE, N1A)
    plan = BindingPlan("n1", (StaticBinding(SMALL, N1A),), (Provisioning(LARGE),))
    library.state.observe_claim(LARGE, a_claim(name="large", size="5G", version="2"))

    with pytest.raises(OutOfSync, match='"default/large"'):
        library.state.assume(plan)

    assert library.state.volume("n1a") is N1A
