"""Kubernetes' tables for volumes: sets 4, 6, 8 and the volume rows of 14, under their numbers.

Mooring has no plugins that delete or recycle storage by themselves, so what Kubernetes does with its mock plugins
(8-1, 8-2, 8-4 to 8-6, 8-9, 9-1; 6-1, 6-2, 6-4 to 6-9, 7-1) is answered as by a controller without them: Failed, with
the reason.
"""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from support.builders import a_pod, claim_body
from support.pvcontroller.case import BY_CTRL, MINE, NAMED, OTHER_UID, Case, check_volume, claim, row, volume
from support.pvcontroller.fake_cluster import FakeCluster

DONE = {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}
HERE = claim(volume="volume-1", annotations=BY_CTRL | DONE, phase="Bound")
ELSEWHERE = claim(volume="volume-2", annotations=BY_CTRL | DONE, phase="Bound")
SECOND = volume(name="volume-2", claim_ref=MINE, annotations=BY_CTRL, phase="Bound")
CSI = {"csi": {"driver": "x.csi", "volumeHandle": "h"}}
MISMATCH, CANNOT_DELETE = "Warning VolumeMismatch", "Warning VolumeFailedDelete"
CANNOT_RECYCLE, IN_USE = "Warning VolumeFailedRecycle", "Normal VolumeFailedRecycle"

both = pytest.mark.parametrize("settled", [pytest.param(False, id="once"), pytest.param(True, id="until settled")])


@both
@pytest.mark.parametrize(
    "case",
    [
        row("4-1 unused", [volume(phase="Pending")], {"volume-1": "Available"}),
        row("4-2 reserved by name", [volume(phase="Pending", claim_ref=NAMED)], {"volume-1": "Available for claim-1"}),
        row("4-3 claim gone", [volume(phase="Bound", claim_ref=MINE)], {"volume-1": "Released to claim-1"}),
        row(
            "4-4 another claim of the name",
            [volume(phase="Bound", claim_ref=OTHER_UID), claim()],
            {"volume-1": "Released to claim-1", "claim-1": "Pending"},
        ),
        row(
            "4-5 claim not yet bound (controller)",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL), claim()],
            {"volume-1": "Bound to claim-1 by controller", "claim-1": "Pending"},
            settled={"claim-1": "Bound to volume-1 by controller"},
        ),
        row(
            "4-5 claim not yet bound (user)",
            [volume(phase="Bound", claim_ref=MINE), claim()],
            {"volume-1": "Bound to claim-1", "claim-1": "Pending"},
            settled={"claim-1": "Bound to volume-1 by controller"},
        ),
        row("4-6 claim bound", [volume(claim_ref=MINE), HERE], {"volume-1": "Bound to claim-1"}),
        row(
            "4-7 claim bound elsewhere (controller)",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL), ELSEWHERE, SECOND],
            {"volume-1": "Available"},
        ),
        row(
            "4-8 claim bound elsewhere (user)",
            [volume(phase="Bound", claim_ref=MINE), ELSEWHERE, SECOND],
            {"volume-1": "Available for claim-1"},
        ),
        row(
            "4-9 policy Delete, claim bound",
            [volume(claim_ref=MINE, reclaim="Delete"), HERE],
            {"volume-1": "Bound to claim-1"},
        ),
        row(
            "4-10 policy Delete, no deleter",
            [volume(phase="Bound", claim_ref=MINE, reclaim="Delete")],
            {"volume-1": "Failed to claim-1"},
            [CANNOT_DELETE],
        ),
        row(
            "14-13 fs volume, block claim",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL), claim(mode="Block")],
            {"volume-1": "Bound to claim-1 by controller", "claim-1": "Pending"},
            [MISMATCH, MISMATCH],
        ),
        row(
            "14-13-1 block volume, fs claim",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL, mode="Block"), claim()],
            {"volume-1": "Bound to claim-1 by controller", "claim-1": "Pending"},
            [MISMATCH, MISMATCH],
        ),
        row(
            "14-14 block and block",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL, mode="Block"), claim(mode="Block")],
            {"volume-1": "Bound to claim-1 by controller", "claim-1": "Pending"},
            settled={"claim-1": "Bound to volume-1 by controller"},
        ),
        row(
            "14-14-1 fs and fs",
            [volume(phase="Bound", claim_ref=MINE, annotations=BY_CTRL), claim()],
            {"volume-1": "Bound to claim-1 by controller", "claim-1": "Pending"},
            settled={"claim-1": "Bound to volume-1 by controller"},
        ),
    ],
)
@pytest.mark.req("T42.PC14", "T42.PC16", "T42.PC17", "T42.PC18", "T42.PC19", "T42.PC20")
def test_volume(case: Case, settled: bool) -> None:
    check_volume(case, settled=settled)


@pytest.mark.req("T42.PC15")
def test_claim_that_only_the_server_knows_counts() -> None:
    """4-11 and 4-12: not in the caches yet, or there with the uid of an earlier claim."""
    unknown = FakeCluster(volume(claim_ref=MINE))
    unknown.create(HERE)
    unknown.settle(VOLUME, "volume-1")
    assert unknown.volume() == "Bound to claim-1"
    old = FakeCluster(volume(claim_ref=MINE), claim(uid="an-earlier-uid"))
    old.delete(CLAIM, "default/claim-1")
    old.create(HERE)
    old.settle(VOLUME, "volume-1")
    assert old.volume() == "Bound to claim-1"


@both
@pytest.mark.parametrize(
    "case",
    [
        row(
            "8-3 no deleter",
            [volume(phase="Bound", claim_ref=MINE, reclaim="Delete", annotations=BY_CTRL)],
            {"volume-1": "Failed to claim-1 by controller"},
            [CANNOT_DELETE],
        ),
        row(
            "8-7 the claim is there and bound",
            [volume(phase="Released", claim_ref=MINE, reclaim="Delete"), HERE],
            {"volume-1": "Bound to claim-1"},
        ),
        row(
            "8-9 another claim of the name",
            [volume(phase="Bound", claim_ref=OTHER_UID, reclaim="Delete"), claim()],
            {"volume-1": "Failed to claim-1", "claim-1": "Pending"},
            [CANNOT_DELETE],
        ),
        row(
            "8-10-1 a driver's",
            [
                volume(
                    phase="Bound",
                    claim_ref=MINE,
                    reclaim="Delete",
                    source=CSI,
                    annotations={well_known.PROVISIONED_BY: "x.csi"},
                )
            ],
            {"volume-1": "Released to claim-1"},
        ),
        row(
            "8-10-2 a driver's, made by hand",
            [volume(phase="Bound", claim_ref=MINE, reclaim="Delete", source=CSI)],
            {"volume-1": "Released to claim-1"},
        ),
        row(
            "8-10-3 a driver took over",
            [
                volume(
                    phase="Bound",
                    claim_ref=MINE,
                    reclaim="Delete",
                    source={"gcePersistentDisk": {"pdName": "d"}},
                    annotations={well_known.PROVISIONED_BY: "kubernetes.io/gce-pd"},
                )
            ],
            {"volume-1": "Released to claim-1"},
        ),
        row(
            "8-11 made in vain by a plugin that is not there",
            [
                volume(
                    phase="Bound",
                    claim_ref=MINE,
                    reclaim="Delete",
                    annotations=BY_CTRL | {well_known.PROVISIONED_BY: "kubernetes.io/rbd"},
                ),
                ELSEWHERE,
                SECOND,
            ],
            {"volume-1": "Failed to claim-1 by controller"},
            [CANNOT_DELETE],
        ),
        row(
            "8-12 made in vain by a driver",
            [
                volume(
                    phase="Bound",
                    claim_ref=MINE,
                    reclaim="Delete",
                    annotations=BY_CTRL | {well_known.PROVISIONED_BY: "x.csi"},
                ),
                ELSEWHERE,
                SECOND,
            ],
            {"volume-1": "Released to claim-1 by controller"},
        ),
        row(
            "8-13 on its way out already",
            [
                volume(
                    phase="Bound",
                    claim_ref=MINE,
                    reclaim="Delete",
                    deleting=True,
                    finalizers=[well_known.IN_TREE_DELETER],
                    annotations={well_known.PROVISIONED_BY: "kubernetes.io/rbd"},
                )
            ],
            {"volume-1": "Failed to claim-1"},
            [CANNOT_DELETE],
        ),
    ],
)
@pytest.mark.req("T42.PC21", "T42.PC22", "T42.PC24", "T42.PC25", "T42.PC38")
def test_policy_delete(case: Case, settled: bool) -> None:
    check_volume(case, settled=settled)


RECYCLED = volume(phase="Bound", claim_ref=MINE, reclaim="Recycle")
AGAIN = claim_body(uid="another-uid", storage_class="none")


@both
@pytest.mark.parametrize(
    "case",
    [
        row("6-3 no recycler", [RECYCLED], {"volume-1": "Failed to claim-1"}, [CANNOT_RECYCLE]),
        row(
            "6-10 unknown policy",
            [volume(phase="Bound", claim_ref=MINE, reclaim="Unknown")],
            {"volume-1": "Failed to claim-1"},
            ["Warning VolumeUnknownReclaimPolicy"],
        ),
        row(
            "6-11 a running pod uses it",
            [RECYCLED],
            {"volume-1": "Released to claim-1"},
            [IN_USE],
            pods=[a_pod(claims=["claim-1"], phase="Running")],
        ),
        row(
            "6-12 a pending pod uses it",
            [RECYCLED],
            {"volume-1": "Released to claim-1"},
            [IN_USE],
            pods=[a_pod(claims=["claim-1"])],
        ),
        row(
            "6-13 only a finished pod used it",
            [RECYCLED],
            {"volume-1": "Failed to claim-1"},
            [CANNOT_RECYCLE],
            pods=[a_pod(claims=["claim-1"], phase="Succeeded")],
        ),
        row(
            "6-14 a new claim of the name, a finished pod",
            [RECYCLED, AGAIN],
            {"volume-1": "Failed to claim-1"},
            [CANNOT_RECYCLE],
            pods=[a_pod(claims=["claim-1"], phase="Succeeded")],
        ),
    ],
)
@pytest.mark.req("T42.PC21", "T42.PC23")
def test_policy_recycle(case: Case, settled: bool) -> None:
    check_volume(case, settled=settled)
