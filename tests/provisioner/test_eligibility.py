"""Which claims are served: rule by rule."""

from collections.abc import Mapping

import pytest

from builders import a_claim, a_class
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.provisioner.eligibility import Claimed, Verdict, verdict
from mooring.provisioner.settings import NodeDeployment
from provisioner.paper_driver import DRIVER

OURS = {keys.STORAGE_PROVISIONER: DRIVER}
WAITS = a_class(provisioner=DRIVER)
NOW = a_class(provisioner=DRIVER, binding_mode="Immediate")
UNSET = a_class(provisioner=DRIVER, binding_mode=None)


def ours(annotations: Mapping[str, str] = OURS, **claim: object) -> Claim:
    return a_claim(annotations=annotations, **claim)  # type: ignore[arg-type]  # keywords of the builder


@pytest.mark.parametrize(
    ("claim", "storage_class", "want"),
    [
        pytest.param(ours(), NOW, Verdict.SERVE, id="immediate"),
        pytest.param(ours(), UNSET, Verdict.SERVE, id="no mode set: not delayed"),
        pytest.param(ours(), WAITS, Verdict.LEAVE, id="waits for a node"),
        pytest.param(ours(selected_node=""), WAITS, Verdict.LEAVE, id="an empty node is none"),
        pytest.param(ours(selected_node="node-1"), WAITS, Verdict.SERVE, id="has its node"),
        pytest.param(
            ours(OURS | {keys.SELECTED_NODE_DRAFT: "node-1"}), WAITS, Verdict.LEAVE, id="the drafts' key does not do"
        ),
        pytest.param(ours(volume="v"), NOW, Verdict.LEAVE, id="names a volume"),
        pytest.param(ours(deleting=True), NOW, Verdict.LEAVE, id="on its way out"),
        pytest.param(ours({}), NOW, Verdict.LEAVE, id="nobody handed it over"),
        pytest.param(ours({keys.STORAGE_PROVISIONER: "other"}), NOW, Verdict.LEAVE, id="handed to another"),
        pytest.param(ours({keys.STORAGE_PROVISIONER_BETA: DRIVER}), NOW, Verdict.SERVE, id="under the older key"),
        pytest.param(
            ours({keys.STORAGE_PROVISIONER: "other", keys.STORAGE_PROVISIONER_BETA: DRIVER}),
            NOW,
            Verdict.LEAVE,
            id="the newer key wins",
        ),
        pytest.param(
            ours({keys.STORAGE_PROVISIONER: "kubernetes.io/x", keys.MIGRATED_TO: DRIVER}),
            NOW,
            Verdict.SERVE,
            id="migrated to this driver",
        ),
        pytest.param(ours(), None, Verdict.NO_CLASS, id="its class is not there"),
        pytest.param(ours(storage_class=""), NOW, Verdict.LEAVE, id="wants no class"),
        pytest.param(ours(), a_class(provisioner="other"), Verdict.LEAVE, id="its class changed hands"),
    ],
)
@pytest.mark.req("T17.trigger")
def test_for_the_whole_cluster(claim: Claim, storage_class: StorageClass | None, want: Verdict) -> None:
    assert verdict(Claimed(claim, storage_class, DRIVER)) is want


HERE = NodeDeployment("node-1")
NO_OFFERS = NodeDeployment("node-1", immediate_binding=False)


@pytest.mark.parametrize(
    ("claim", "storage_class", "deployment", "want"),
    [
        pytest.param(ours(selected_node="node-1"), WAITS, HERE, Verdict.SERVE, id="this node was chosen"),
        pytest.param(ours(selected_node="node-2"), WAITS, HERE, Verdict.LEAVE, id="another node was chosen"),
        pytest.param(ours(), WAITS, HERE, Verdict.LEAVE, id="none was chosen, and somebody will"),
        pytest.param(ours(), NOW, HERE, Verdict.OFFER, id="none was chosen, and nobody will"),
        pytest.param(ours(), UNSET, HERE, Verdict.LEAVE, id="an unset mode does not count as immediate"),
        pytest.param(ours(), NOW, NO_OFFERS, Verdict.LEAVE, id="offers are off"),
        pytest.param(ours(selected_node="node-1"), NOW, HERE, Verdict.SERVE, id="an offer that was taken"),
        pytest.param(ours(selected_node="node-2"), NOW, HERE, Verdict.LEAVE, id="another node was faster"),
        pytest.param(ours({}, selected_node="node-1"), WAITS, HERE, Verdict.LEAVE, id="not handed over"),
    ],
)
def test_for_one_node(claim: Claim, storage_class: StorageClass, deployment: NodeDeployment, want: Verdict) -> None:
    assert verdict(Claimed(claim, storage_class, DRIVER, deployment)) is want
