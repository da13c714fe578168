"""Volumes: whose they are, who could have them, and what keeps them from being used or from going."""

from collections.abc import Sequence
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import VOLUME
from mooring.explain.cluster_view import ClusterView
from mooring.explain.results import PendingClaim, VolumeReport, VolumeUser
from mooring.explain.volume import explain_volume
from mooring.volumes.holds import objects as marks
from support.builders import Body, attachment_body, claim_body, claim_ref, class_body, node_body, pod_body, volume_body
from support.explain.clusters import event_body, listed

NODE = node_body(name="n1")
LATE = class_body(name="local")
BOUND_REF = claim_ref(name="data", uid="data-uid")
BOUND_CLAIM = claim_body(name="data", uid="data-uid", volume="disk", bound=True, phase="Bound")
POD = pod_body(name="web", claims=["data"], node="n1", phase="Running")


disk = partial(volume_body, name="disk")


def explained_disk(*bodies: Body) -> VolumeReport:
    objects = listed(*bodies)
    volume = objects.get(VOLUME, "disk")
    assert volume is not None
    return explain_volume(ClusterView(objects), volume)


def held(reference: str, **notes: str) -> Body:
    return disk(
        claim_ref=claim_ref(name=reference, namespace="kube-system"),
        annotations={marks.CLAIM: "default/data", marks.NODE: "n1", marks.SINCE: "2026-01-02T03:04:05Z"} | notes,
    )


@pytest.mark.parametrize(
    ("bodies", "state", "verdict", "stuck"),
    [
        pytest.param(
            [disk()], "Available", "disk is available, and no claim is pending.", False, id="no claim is pending"
        ),
        pytest.param(
            [disk(phase="")], "Pending", "disk is available, and no claim is pending.", False, id="not looked at yet"
        ),
        pytest.param(
            [disk(), claim_body(name="a"), claim_body(name="b", size="99Gi")],
            "Available",
            "disk is available and matches default/a.",
            False,
            id="does for one",
        ),
        pytest.param(
            [disk(), claim_body(name="b", size="99Gi")],
            "Available",
            "disk is available and matches none of 1 pending claim.",
            False,
            id="does for none",
        ),
        pytest.param(
            [disk(claim_ref=claim_ref(name="data"))],
            "Reserved",
            "disk is reserved for default/data, which does not exist yet.",
            False,
            id="kept for a claim to come",
        ),
        pytest.param(
            [disk(claim_ref=claim_ref(name="data")), claim_body(name="data"), LATE],
            "Reserved",
            "disk is reserved for default/data, and will be bound to it, once a pod that uses it is scheduled.",
            False,
            id="kept for a claim that waits for a pod",
        ),
        pytest.param(
            [disk(claim_ref=claim_ref(name="data")), claim_body(name="data", size="99Gi")],
            "Reserved",
            "disk is reserved for default/data, but is smaller than requested: 10Gi, 99Gi requested.",
            True,
            id="kept for a claim it does not do for",
        ),
        pytest.param(
            [disk(claim_ref=claim_ref(name="data")), claim_body(name="data", volume="other", bound=True)],
            "Reserved",
            "disk is reserved for default/data, which has other already.",
            True,
            id="kept for a claim that has another",
        ),
        pytest.param(
            [held("hold-data-uid")],
            "Held",
            "disk is held for default/data on n1 since 2026-01-02T03:04:05Z, until all volumes of the pod are "
            "available.",
            False,
            id="held",
        ),
        pytest.param(
            [held("rollback-data-uid", **{marks.REASON: "no room for the other"})],
            "RollingBack",
            "disk, provisioned for default/data, is being rolled back: no room for the other.",
            False,
            id="rolled back",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Bound"), BOUND_CLAIM],
            "Bound",
            "disk is bound to default/data, used by no pod.",
            False,
            id="bound and unused",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Bound"), BOUND_CLAIM, POD],
            "Bound",
            "disk is bound to default/data, used by 1 pod on n1.",
            False,
            id="bound and used",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Bound"), BOUND_CLAIM, pod_body(claims=["data"])],
            "Bound",
            "disk is bound to default/data, used by 1 pod, without a node.",
            False,
            id="its pod waits",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF), claim_body(name="data", uid="data-uid")],
            "Binding",
            "disk will be bound to default/data.",
            False,
            id="half bound",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF), claim_body(name="data", uid="data-uid", volume="other", bound=True)],
            "Misbound",
            "disk names default/data in its claimRef, which is bound to other.",
            True,
            id="the claim is another's",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Bound")],
            "ClaimMissing",
            "disk is Bound to default/data, which is not among the claims that were listed.",
            False,
            id="claims are not listed",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Released")],
            "Released",
            "disk is Released: its claim default/data was deleted; reclaim policy Retain keeps it from other claims.",
            True,
            id="retained",
        ),
        pytest.param(
            [
                disk(claim_ref=BOUND_REF, phase="Released"),
                claim_body(name="data", uid="new"),
                claim_body(name="b", size="99Gi"),
            ],
            "Released",
            "disk is Released: its claim default/data was deleted; the claim with that name is a new one; reclaim "
            "policy Retain keeps it from other claims; without its claimRef it would match default/data.",
            True,
            id="retained while a claim is pending",
        ),
        pytest.param(
            [
                disk(
                    claim_ref=BOUND_REF,
                    phase="Released",
                    reclaim="Delete",
                    annotations={well_known.PROVISIONED_BY: "d.example"},
                )
            ],
            "Released",
            "disk is Released: its claim default/data was deleted, and d.example must delete its storage.",
            False,
            id="to be deleted",
        ),
        pytest.param(
            [disk(claim_ref=BOUND_REF, phase="Released", reclaim="Delete")],
            "Released",
            "disk is Released: its claim default/data was deleted, and no driver is known that could delete its "
            "storage.",
            True,
            id="no driver deletes it",
        ),
        pytest.param(
            [
                disk(claim_ref=BOUND_REF, phase="Failed")
                | {"status": {"phase": "Failed", "message": "no plugin matched"}}
            ],
            "Failed",
            "disk is Failed: no plugin matched.",
            True,
            id="failed",
        ),
        pytest.param(
            [disk(node="gone"), claim_body(name="a")],
            "Unreachable",
            "disk is available, but no node can reach it: it requires kubernetes.io/hostname=gone, and no node matches "
            "(gone does not exist).",
            True,
            id="free, of a node that is gone",
        ),
        pytest.param(
            [disk(node="gone", claim_ref=BOUND_REF, phase="Bound"), BOUND_CLAIM],
            "Unreachable",
            "disk is bound to default/data, used by no pod; no node can reach it: it requires "
            "kubernetes.io/hostname=gone, and no node matches (gone does not exist).",
            True,
            id="bound, of a node that is gone",
        ),
        pytest.param(
            [disk(labels={well_known.ZONE: "z9"}), node_body(name="n1", labels={well_known.ZONE: "z1"})],
            "Unreachable",
            f"disk is available, but no node can reach it: it requires {well_known.ZONE}=z9, and no node matches.",
            True,
            id="of a zone without nodes",
        ),
    ],
)
def test_how_it_stands(bodies: Sequence[Body], state: str, verdict: str, stuck: bool) -> None:
    found = explained_disk(NODE, *bodies)
    assert (found.state, found.verdict, found.stuck) == (state, verdict, stuck)
    assert bool(found.remedy_texts) or not stuck, "a stuck volume has a remedy"


@pytest.mark.parametrize(
    ("bodies", "why", "remedy_texts"),
    [
        pytest.param([disk(deleting=True)], " and will be removed soon.", (), id="nothing keeps it"),
        pytest.param(
            [disk(deleting=True, claim_ref=BOUND_REF, finalizers=[well_known.PV_PROTECTION]), BOUND_CLAIM, POD],
            ": default/data is bound to it, which default/web uses.",
            (
                "loses the binding of default/data to disk: the data stays there (reclaim policy Retain), and the next "
                "default/data gets another volume; only if that data is backed up or not needed: kubectl -n default "
                "delete pvc data --wait=false && kubectl -n default delete pod web",
            ),
            id="a claim with a pod",
        ),
        pytest.param(
            [
                disk(
                    deleting=True,
                    finalizers=[well_known.EXTERNAL_PROVISIONER],
                    annotations={well_known.PROVISIONED_BY: "d.example"},
                )
            ],
            f": its finalizer {well_known.EXTERNAL_PROVISIONER} waits until d.example has deleted the storage.",
            ("check that d.example runs, and its logs",),
            id="the driver",
        ),
        pytest.param(
            [
                disk(deleting=True, finalizers=["external-attacher/d-example"]),
                attachment_body(volume="disk", node="n1"),
            ],
            ": it is attached to n1.",
            (),
            id="an attachment",
        ),
        pytest.param(
            [disk(deleting=True, finalizers=["external-attacher/d-example"])],
            ": finalizer external-attacher/d-example is still there.",
            ("check that the external-attacher of its driver runs",),
            id="an attacher that is gone",
        ),
        pytest.param(
            [disk(deleting=True, finalizers=["example.com/mine"])],
            ": finalizer example.com/mine is still there.",
            ("find out which component owns that finalizer, and whether it runs",),
            id="a stranger's finalizer",
        ),
    ],
)
def test_what_keeps_it_from_going(bodies: Sequence[Body], why: str, remedy_texts: tuple[str, ...]) -> None:
    found = explained_disk(NODE, *bodies)
    since = bodies[0]["metadata"]["deletionTimestamp"]
    assert (found.state, found.verdict) == ("Deleting", f"disk is being deleted since {since}{why}")
    assert (found.remedy_texts, found.stuck) == (remedy_texts, bool(remedy_texts))


def test_pending_claims_are_listed_with_the_criterion_they_fail() -> None:
    claims = [
        claim_body(name="does"),
        claim_body(name="class", storage_class="fast"),
        claim_body(name="mode", mode="Block"),
        claim_body(name="access", access_modes=["ReadWriteMany"]),
        claim_body(name="labels", selector={"matchLabels": {"disk": "ssd"}}),
        claim_body(name="senseless", size="much"),
        claim_body(name="bound", volume="other", bound=True, phase="Bound"),
        claim_body(name="leaving", deleting=True),
    ]
    found = explained_disk(NODE, LATE, disk(), *claims)
    assert found.pending_claims == (
        PendingClaim("default/does", detail="once a pod that uses it is scheduled to a node that reaches the volume"),
        PendingClaim(
            "default/access", "ACCESS_MODES", "lacks a requested access mode", "ReadWriteOnce, not ReadWriteMany"
        ),
        PendingClaim("default/class", "CLASS", "has another storage class", "local, fast requested"),
        PendingClaim(
            "default/labels", "SELECTOR", "does not match the claim's selector", "disk=ssd requested, has no disk"
        ),
        PendingClaim("default/mode", "MODE", "has another volumeMode", "Filesystem, Block requested"),
        found.pending_claims[5],
    )
    assert (found.pending_claims[5].claim, found.pending_claims[5].criterion) == ("default/senseless", "SENSELESS")
    assert found.failed == {"ACCESS_MODES": 1, "CLASS": 1, "SELECTOR": 1, "MODE": 1, "SENSELESS": 1}


def test_of_two_that_do_the_smaller_is_taken_before() -> None:
    now = class_body(name="local", binding_mode="Immediate")
    found = explained_disk(NODE, now, disk(), volume_body(name="small", size="6Gi"), claim_body(name="a"))
    assert found.pending_claims == (
        PendingClaim("default/a", detail="small is smaller, matches as well and is bound first"),
    )
    assert (
        not explained_disk(NODE, now, disk(), volume_body(name="tiny", size="1Gi"), claim_body(name="a"))
        .pending_claims[0]
        .detail
    )


def test_few_claims_are_named_and_all_counted() -> None:
    claims = [claim_body(name=f"c{number:02}", size="99Gi") for number in range(30)]
    found = explained_disk(NODE, disk(), *claims)
    assert (len(found.pending_claims), found.failed) == (10, {"SIZE": 30})
    assert found.verdict == "disk is available and matches none of 30 pending claims."


def test_the_report_lists_users_and_attachments() -> None:
    attachment = attachment_body(volume="disk", node="n1") | {"status": {"attached": True}}
    found = explained_disk(
        NODE,
        node_body(name="n2"),
        disk(claim_ref=BOUND_REF, phase="Bound", node="n1"),
        BOUND_CLAIM,
        POD,
        pod_body(name="done", claims=["data"], node="n1", phase="Succeeded"),
        attachment,
        attachment_body(name="other", volume="another", node="n2"),
    )
    assert found.users == (VolumeUser("default/web", "Running", "n1"),)
    assert found.attachments == ("n1: attached",)
    assert (found.reached_from, found.nodes, found.claim) == (("n1",), 2, "default/data")
    assert found.facts == "10Gi, class local, ReadWriteOnce, Filesystem, reclaim policy Retain"


def test_the_last_event_of_the_provisioner_is_reported() -> None:
    volume = disk(
        claim_ref=BOUND_REF, phase="Released", reclaim="Delete", annotations={well_known.PROVISIONED_BY: "d.example"}
    )
    said = event_body(volume, "VolumeFailedDelete", "in use", at="2026-01-02T03:04:05Z")
    found = explained_disk(NODE, volume, said)
    assert found.notes == ("VolumeFailedDelete at 2026-01-02T03:04:05Z: in use",)
    assert found.stuck
    assert found.remedy_texts == ("check that the provisioner of d.example runs, and its logs",)


def test_without_nodes_reachability_is_not_reported() -> None:
    found = explained_disk(disk(node="n1"))
    assert (found.state, found.nodes, found.reached_from) == ("Available", 0, ())
