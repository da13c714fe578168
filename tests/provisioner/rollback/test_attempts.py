"""Plans of attempts on record: for the node the attempt is begun for, whatever is known of the claim."""

import pytest

from mooring.provisioner.rollback.attempts import direct_plan, held_plan
from mooring.volumes.holds import objects
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import a_claim
from support.provisioner.plans import NODE, UID, plan_of

INTENT = Intent(3, NODE, IntentPhase.CREATING)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(None, id="no node yet"),
        pytest.param("node-2", id="the last node"),
        pytest.param(NODE, id="the same"),
    ],
)
def test_old_news_of_the_claim_do_not_count(known: str | None) -> None:
    claim = a_claim(uid=UID, storage_class="made", selected_node=known)
    assert claim.assumed_on(NODE).selected_node == NODE
    assert plan_of(claim.assumed_on(NODE)) == plan_of()


def test_held_plan_has_hold_claim_ref() -> None:
    claim = a_claim(uid=UID, storage_class="made", selected_node=NODE)
    draft = held_plan(plan_of(), claim, INTENT, now=0.0, hold_namespace="kube-system").draft
    assert draft["spec"]["claimRef"] == {"namespace": "kube-system", "name": f"hold-{UID}"}
    assert draft["metadata"]["annotations"][objects.ATTEMPT] == "3"
    assert draft["metadata"]["annotations"][objects.CLAIM] == claim.key


def test_a_given_volume_is_the_claims_own_and_unmarked() -> None:
    draft = direct_plan(plan_of(), INTENT).draft
    assert draft["spec"] == plan_of().draft["spec"]
    assert draft["metadata"]["annotations"][objects.ATTEMPT] == "3"
    assert objects.CLAIM not in draft["metadata"]["annotations"]
