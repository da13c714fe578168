"""Which claims are served: rule by rule."""

from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.api.views.storage import Claim, StorageClass
from mooring.provisioner.provision.eligibility import Eligibility, eligibility_of
from mooring.provisioner.settings import NodeDeployment
from support.builders import a_claim, a_class
from support.csi_drivers.recording import DRIVER

OURS = {well_known.STORAGE_PROVISIONER: DRIVER}
WAITS = a_class(provisioner=DRIVER)
NOW = a_class(provisioner=DRIVER, binding_mode="Immediate")
UNSET = a_class(provisioner=DRIVER, binding_mode=None)


def ours(annotations: Mapping[str, str] = OURS, **claim: object) -> Claim:
    return a_claim(annotations=annotations, **claim)  # type: ignore[arg-type]  # keywords of the builder


@pytest.mark.parametrize(
    ("claim", "storage_class", "want"),
    [
        pytest.param(ours(), NOW, Eligibility.PROVISION, id="immediate"),
        pytest.param(ours(), UNSET, Eligibility.PROVISION, id="no mode set: not delayed"),
        pytest.param(ours(), WAITS, Eligibility.SKIP, id="waits for a node"),
        pytest.param(ours(selected_node=""), WAITS, Eligibility.SKIP, id="an empty node is none"),
        pytest.param(ours(selected_node="node-1"), WAITS, Eligibility.PROVISION, id="has its node"),
        pytest.param(
            ours(OURS | {well_known.SELECTED_NODE_DRAFT: "node-1"}),
            WAITS,
            Eligibility.SKIP,
            id="the drafts' key does not do",
        ),
        pytest.param(ours(volume="v"), NOW, Eligibility.SKIP, id="names a volume"),
        pytest.param(ours(deleting=True), NOW, Eligibility.SKIP, id="terminating"),
        pytest.param(ours({}), NOW, Eligibility.SKIP, id="not annotated"),
        pytest.param(ours({well_known.STORAGE_PROVISIONER: "other"}), NOW, Eligibility.SKIP, id="handed to another"),
        pytest.param(
            ours({well_known.STORAGE_PROVISIONER_BETA: DRIVER}), NOW, Eligibility.PROVISION, id="under the older key"
        ),
        pytest.param(
            ours({well_known.STORAGE_PROVISIONER: "other", well_known.STORAGE_PROVISIONER_BETA: DRIVER}),
            NOW,
            Eligibility.SKIP,
            id="the newer key wins",
        ),
        pytest.param(
            ours({well_known.STORAGE_PROVISIONER: "kubernetes.io/x", well_known.MIGRATED_TO: DRIVER}),
            NOW,
            Eligibility.PROVISION,
            id="migrated to this driver",
        ),
        pytest.param(ours(), None, Eligibility.NO_CLASS, id="its class is not there"),
        pytest.param(ours(storage_class=""), NOW, Eligibility.SKIP, id="wants no class"),
        pytest.param(ours(), a_class(provisioner="other"), Eligibility.SKIP, id="its class changed hands"),
    ],
)
@pytest.mark.req("T17.trigger")
def test_for_the_whole_cluster(claim: Claim, storage_class: StorageClass | None, want: Eligibility) -> None:
    assert eligibility_of(claim, storage_class, DRIVER) is want


HERE = NodeDeployment("node-1")
NO_OFFERS = NodeDeployment("node-1", immediate_binding=False)


@pytest.mark.parametrize(
    ("claim", "storage_class", "deployment", "want"),
    [
        pytest.param(ours(selected_node="node-1"), WAITS, HERE, Eligibility.PROVISION, id="this node was chosen"),
        pytest.param(ours(selected_node="node-2"), WAITS, HERE, Eligibility.SKIP, id="another node was chosen"),
        pytest.param(ours(), WAITS, HERE, Eligibility.SKIP, id="no node selected, delayed"),
        pytest.param(ours(), NOW, HERE, Eligibility.CLAIM_NODE, id="no node selected, immediate"),
        pytest.param(ours(), UNSET, HERE, Eligibility.SKIP, id="an unset mode does not count as immediate"),
        pytest.param(ours(), NOW, NO_OFFERS, Eligibility.SKIP, id="offers are off"),
        pytest.param(ours(selected_node="node-1"), NOW, HERE, Eligibility.PROVISION, id="an offer that was taken"),
        pytest.param(ours(selected_node="node-2"), NOW, HERE, Eligibility.SKIP, id="another node was faster"),
        pytest.param(ours({}, selected_node="node-1"), WAITS, HERE, Eligibility.SKIP, id="not handed over"),
    ],
)
def test_for_one_node(claim: Claim, storage_class: StorageClass, deployment: NodeDeployment, want: Eligibility) -> None:
    assert eligibility_of(claim, storage_class, DRIVER, deployment) is want
