"""Plans of attempts on record: for the node the attempt is begun for, whatever is known of the claim."""

import pytest

from builders import a_claim
from mooring.provisioner.held_plan import given_plan, held_plan, wanted_on
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import Intent, Phase
from provisioner.plans import NODE, UID, plan_of

INTENT = Intent(3, NODE, Phase.CREATING)


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
    assert wanted_on(claim, NODE).selected_node == NODE
    assert plan_of(wanted_on(claim, NODE)) == plan_of()


def test_a_held_volume_is_nobodys() -> None:
    claim = a_claim(uid=UID, storage_class="made", selected_node=NODE)
    draft = held_plan(plan_of(), claim, INTENT, now=0.0, hold_namespace="kube-system").draft
    assert draft["spec"]["claimRef"] == {"namespace": "kube-system", "name": f"hold-{UID}"}
    assert draft["metadata"]["annotations"][objects.ATTEMPT] == "3"
    assert draft["metadata"]["annotations"][objects.CLAIM] == claim.key


def test_a_given_volume_is_the_claims_own_and_unmarked() -> None:
    draft = given_plan(plan_of(), INTENT).draft
    assert draft["spec"] == plan_of().draft["spec"]
    assert draft["metadata"]["annotations"][objects.ATTEMPT] == "3"
    assert objects.CLAIM not in draft["metadata"]["annotations"]
