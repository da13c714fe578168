"""When a volume's finalizer comes and goes, and when its storage is deleted."""

from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.api.views.storage import Volume
from mooring.csi.contract import NodeInfo, Topology
from mooring.provisioner.provision.eligibility import VolumeAction, is_ours, next_step, segments_of
from support.builders import a_volume
from support.builders.volumes import reachable_from
from support.csi_drivers.recording import DRIVER, KEY

GUARD = well_known.EXTERNAL_PROVISIONER
CSI = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}


def made(**volume: object) -> Volume:
    usual: dict[str, object] = {
        "annotations": {well_known.PROVISIONED_BY: DRIVER},
        "reclaim": "Delete",
        "phase": "Released",
        "finalizers": [GUARD],
        "source": CSI,
    }
    return a_volume(**(usual | volume))  # type: ignore[arg-type]  # keywords of the builder


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(made(), VolumeAction.DELETE, id="released"),
        pytest.param(made(deleting=True), VolumeAction.DELETE, id="released, object terminating"),
        pytest.param(made(finalizers=[]), VolumeAction.DELETE, id="released, without the finalizer"),
        pytest.param(made(finalizers=[], deleting=True), VolumeAction.NOTHING, id="on its way out without us"),
        pytest.param(made(phase="Failed"), VolumeAction.NOTHING, id="failed volumes are an administrator's"),
        pytest.param(made(phase="Available"), VolumeAction.NOTHING, id="available"),
        pytest.param(made(phase=""), VolumeAction.NOTHING, id="just made"),
        pytest.param(made(phase="Bound"), VolumeAction.NOTHING, id="bound and guarded"),
        pytest.param(made(phase="Bound", finalizers=[]), VolumeAction.ADD_FINALIZER, id="bound and not guarded"),
        pytest.param(made(phase="Bound", finalizers=[], deleting=True), VolumeAction.NOTHING, id="too late to guard"),
        pytest.param(made(reclaim="Retain"), VolumeAction.REMOVE_FINALIZER, id="to be kept"),
        pytest.param(
            made(reclaim="Retain", deleting=True), VolumeAction.REMOVE_FINALIZER, id="to be kept, object on its way out"
        ),
        pytest.param(made(reclaim="Retain", finalizers=[]), VolumeAction.NOTHING, id="to be kept, not guarded"),
        pytest.param(made(reclaim="Recycle"), VolumeAction.REMOVE_FINALIZER, id="to be recycled"),
        pytest.param(made(annotations={well_known.PROVISIONED_BY: "other"}), VolumeAction.NOTHING, id="another's"),
    ],
)
def test_steps(volume: Volume, want: VolumeAction) -> None:
    assert next_step(volume, DRIVER) is want


@pytest.mark.parametrize(
    ("annotations", "source", "want"),
    [
        pytest.param({well_known.PROVISIONED_BY: DRIVER}, CSI, True, id="made by us"),
        pytest.param({well_known.PROVISIONED_BY: "other"}, CSI, False, id="made by another"),
        pytest.param(
            {well_known.PROVISIONED_BY: "kubernetes.io/x", well_known.MIGRATED_TO: DRIVER},
            CSI,
            True,
            id="migrated to us",
        ),
        pytest.param({}, CSI, True, id="made by hand for this driver"),
        pytest.param({}, {"local": {"path": "/x"}}, False, id="not a driver's at all"),
    ],
)
def test_is_ours(annotations: Mapping[str, str], source: Mapping[str, object], want: bool) -> None:
    assert is_ours(made(annotations=annotations, source=source), DRIVER) == want


HERE = NodeInfo("node-1", accessible_from=Topology({KEY: "node-1"}))


@pytest.mark.parametrize(
    ("volume", "node", "want"),
    [
        pytest.param(made(affinity=reachable_from(KEY, "node-1")), HERE, VolumeAction.DELETE, id="on this node"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2")), HERE, VolumeAction.NOTHING, id="on another node"),
        pytest.param(made(affinity=reachable_from(KEY, "node-2", "node-1")), HERE, VolumeAction.DELETE, id="on both"),
        pytest.param(made(), HERE, VolumeAction.DELETE, id="without a place"),
        pytest.param(
            made(affinity=reachable_from(KEY, "node-2")), NodeInfo("node-1"), VolumeAction.DELETE, id="no topology"
        ),
        pytest.param(
            made(affinity=reachable_from(KEY, "node-2")), None, VolumeAction.DELETE, id="for the whole cluster"
        ),
    ],
)
def test_only_what_is_on_this_node_is_deleted_from_here(
    volume: Volume, node: NodeInfo | None, want: VolumeAction
) -> None:
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
    assert segments_of(volume) == want
