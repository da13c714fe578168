"""The states a volume passes through on its way to a claim, read off its claimRef."""

import pytest

from builders import Body, a_claim, a_volume, claim_ref
from mooring.volumes.plan import BindingPlan, HoldState, Provisioning, StaticBinding, held_reference, hold_state

OURS = "mooring-system"


@pytest.mark.parametrize(
    ("reference", "state"),
    [
        pytest.param(None, HoldState.FREE, id="nobody's"),
        pytest.param(
            claim_ref(name="hold-claim-uid", namespace=OURS), HoldState.HELD, id="reserved for a claim, bound by nobody"
        ),
        pytest.param(
            claim_ref(name="rollback-claim-uid", namespace=OURS), HoldState.ROLLING_BACK, id="on its way to be deleted"
        ),
        pytest.param(claim_ref(name="data", uid="u"), HoldState.COMMITTED, id="a claim's"),
        pytest.param(claim_ref(name="data"), HoldState.COMMITTED, id="reserved by its user, by name"),
        pytest.param(
            claim_ref(name="hold-claim-uid", namespace="elsewhere"), HoldState.COMMITTED, id="a claim that is called so"
        ),
        pytest.param(
            claim_ref(name="hold-x", namespace=OURS, uid="u"), HoldState.COMMITTED, id="a claim in our namespace"
        ),
    ],
)
def test_the_state_is_one_field_of_one_object(reference: Body | None, state: HoldState) -> None:
    assert hold_state(a_volume(claim_ref=reference), hold_namespace=OURS) is state


def test_a_hold_can_be_told_from_what_it_was_made_of() -> None:
    reference = held_reference("claim-uid", hold_namespace=OURS)
    assert (reference.namespace, reference.name, reference.uid) == (OURS, "hold-claim-uid", "")


@pytest.mark.parametrize(
    ("static", "provision", "empty", "wants_hold"),
    [
        pytest.param(0, 0, True, False, id="nothing to bind"),
        pytest.param(1, 0, False, False, id="one existing volume"),
        pytest.param(0, 1, False, False, id="one new volume"),
        pytest.param(1, 1, False, True, id="one of each"),
        pytest.param(2, 0, False, True, id="two existing volumes"),
    ],
)
def test_only_a_plan_for_several_volumes_can_succeed_by_half(
    static: int, provision: int, empty: bool, wants_hold: bool
) -> None:
    plan = BindingPlan(
        "node-1",
        static=tuple(StaticBinding(a_claim(), a_volume()) for _ in range(static)),
        provision=tuple(Provisioning(a_claim()) for _ in range(provision)),
    )
    assert (plan.empty, plan.wants_hold) == (empty, wants_hold)
