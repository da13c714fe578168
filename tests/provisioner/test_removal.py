"""When a volume's finalizer comes and goes, and when its storage is deleted."""

from collections.abc import Mapping

import pytest

from builders import a_volume
from builders.volumes import reachable_from
from mooring.api import keys
from mooring.api.views.volume import Volume
from mooring.csi.contract import NodeInfo, Topology
from mooring.provisioner.removal import Step, is_ours, next_step, places_of
from provisioner.paper_driver import DRIVER, KEY

GUARD = keys.EXTERNAL_PROVISIONER
CSI = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}


def made(**volume: object) -> Volume:
    usual: dict[str, object] = {
        "annotations": {keys.PROVISIONED_BY: DRIVER},
        "reclaim": "Delete",
        "phase": "Released",
        "finalizers": [GUARD],
        "source": CSI,
    }
    return a_volume(**(usual | volume))  # type: ignore[arg-type]  # keywords of the builder


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(made(), Step.DELETE, id="released"),
        pytest.param(made(deleting=True), Step.DELETE, id="released, and somebody deleted the object already"),
        pytest.param(made(finalizers=[]), Step.DELETE, id="released, without the finalizer"),
        pytest.param(made(finalizers=[], deleting=True), Step.NOTHING, id="on its way out without us"),
        pytest.param(made(phase="Failed"), Step.NOTHING, id="failed volumes are an administrator's"),
        pytest.param(made(phase="Available"), Step.NOTHING, id="available"),
        pytest.param(made(phase=""), Step.NOTHING, id="just made"),
        pytest.param(made(phase="Bound"), Step.NOTHING, id="bound and guarded"),
        pytest.param(made(phase="Bound", finalizers=[]), Step.ADD_FINALIZER, id="bound and not guarded"),
        pytest.param(made(phase="Bound", finalizers=[], deleting=True), Step.NOTHING, id="too late to guard"),
        pytest.param(made(reclaim="Retain"), Step.REMOVE_FINALIZER, id="to be kept"),
        pytest.param(
            made(reclaim="Retain", deleting=True), Step.REMOVE_FINALIZER, id="to be kept, object on its way out"
        ),
        pytest.param(made(reclaim="Retain", finalizers=[]), Step.NOTHING, id="to be kept, not guarded"),
        pytest.param(made(reclaim="Recycle"), Step.REMOVE_FINALIZER, id="to be recycled"),
        pytest.param(made(annotations={keys.PROVISIONED_BY: "other"}), Step.NOTHING, id="another's"),
    ],
)
def test_steps(volume: Volume, want: Step) -> None:
    assert next_step(volume, DRIVER) is want


@pytest.mark.parametrize(
    ("annotations", "source", "want"),
    [
        pytest.param({keys.PROVISIONED_BY: DRIVER}, CSI, True, id="made by us"),
        pytest.param({keys.PROVISIONED_BY: "other"}, CSI, False, id="made by another"),
        pytest.param(
            {keys.PROVISIONED_BY: "kubernetes.io/x", keys.MIGRATED_TO: DRIVER}, CSI, True, id="migrated to us"
        ),
        pytest.param({}, CSI, True, id="made by hand for this driver"),
        pytest.param({}, {"local": {"path": "/x"}}, False, id="not a driver's at all"),
    ],
)
def test_whose(annotations: Mapping[str, str], source: Mapping[str, object], want: bool) -> None:
    assert is_ours(made(annotations=annotations, source=source), DRIVER) == want


HERE = NodeInfo("node-1", accessible_from=Topology({KEY: "node-1"}))


@pytest.mark.parametrize(
    ("volume", "node", "want"),
    [
        pytest.param(made(affinity=reachable_from(KEY, "node-1")), HERE, Step.DELETE, id="on this node"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2")), HERE, Step.NOTHING, id="on another node"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2", "node-1")), HERE, Step.DELETE, id="on both"),
        pytest.param(made(), HERE, Step.DELETE, id="without a place"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2")), NodeInfo("node-1"), Step.DELETE, id="no topology"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2")), None, Step.DELETE, id="for the whole cluster"),
    ],
)
def test_only_what_is_on_this_node_is_deleted_from_here(volume: Volume, node: NodeInfo | None, want: Step) -> None:
    assert next_step(volume, DRIVER, node) is want


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(made(), (), id="everywhere"),
        pytest.param(made(affinity=reachable_from("z", "a")), ((("z", "a"),),), id="one place"),
        pytest.param(made(affinity=reachable_from("z", "a", "b")), (), id="not a form that provisioners write"),
        pytest.param(
            made(
                affinity={
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "z", "operator": "In", "values": ["a"]},
                                {"key": "r", "operator": "In", "values": ["1"]},
                            ]
                        },
                        {"matchExpressions": [{"key": "z", "operator": "In", "values": ["b"]}]},
                    ]
                }
            ),
            ((("r", "1"), ("z", "a")), (("z", "b"),)),
            id="two places, keys sorted",
        ),
    ],
)
def test_places(volume: Volume, want: tuple[tuple[tuple[str, str], ...], ...]) -> None:
    assert places_of(volume) == want
