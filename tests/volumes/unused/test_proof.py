"""What a watch of pods proves about a bound claim, and every reason to leave the claim alone."""

from typing import Any, Final

import pytest

from mooring.api import well_known
from mooring.api.views.pods import Pod
from mooring.api.views.storage import AttachmentSource, AttachmentSpec, Claim, VolumeAttachment
from mooring.volumes.claim_rollback import ROLLBACK
from mooring.volumes.unused import proof
from mooring.volumes.unused.proof import (
    BoundPair,
    UnusedRefusalCode,
    Usage,
    UsageHistory,
    WatchPosition,
    delay_until_replaced,
    replacement_refusal,
    unschedulable_since,
)
from support.builders import a_claim, a_class, a_pod, a_volume, claim_ref

UID: Final = "11111111-2222-3333-4444-555555555555"
VOLUME: Final = f"pvc-{UID}"
SINCE: Final = 1767225600.0
DELAY: Final = 60.0
REJECTED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def bound(version: int = 20, **changes: Any) -> Claim:  # noqa: ANN401  the builder's
    notes = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
    given = {"name": "c", "uid": UID, "volume": VOLUME, "bound": True, "annotations": notes, "version": str(version)}
    return a_claim(**(given | changes))


def unbound(version: int = 10) -> Claim:
    return a_claim(name="c", uid=UID, version=str(version))


def user(node: str = "n1", **changes: Any) -> Pod:  # noqa: ANN401  the builder's
    return a_pod(name="user", claims=["c"], node=node, **changes)


def observed(seen: int = 15) -> UsageHistory:
    """A history in which the claim had no volume at version `seen`."""
    history = UsageHistory()
    history.claim_changed(unbound(), bound(), seen, now=100.0)
    return history


@pytest.mark.parametrize(
    ("at", "until", "expected"),
    [
        pytest.param(WatchPosition(5, 30), 25, Usage.NEVER, id="watched all the time"),
        pytest.param(WatchPosition(15, 30), 30, Usage.NEVER, id="both versions are enough"),
        pytest.param(WatchPosition(16, 30), 25, Usage.UNKNOWN, id="listed after the claim had no volume"),
        pytest.param(WatchPosition(5, 24), 25, Usage.PENDING, id="the watch has not reached the deletion"),
    ],
)
@pytest.mark.req("R8.released")
def test_watch_without_a_gap_is_the_proof(at: WatchPosition, until: int, expected: Usage) -> None:
    assert observed().usage(bound(), (), at, until=until) is expected


@pytest.mark.parametrize("pod", [user(), user(phase="Succeeded"), user(deleting=True)])
@pytest.mark.req("R8.released")
def test_pod_with_a_node_is_a_use_whatever_its_phase(pod: Pod) -> None:
    assert observed().usage(bound(), (pod,), WatchPosition(5, 30)) is Usage.MAYBE


@pytest.mark.parametrize(
    ("deleted_after", "node", "expected"),
    [
        pytest.param(16, "n1", Usage.MAYBE, id="after the claim was bound"),
        pytest.param(14, "n1", Usage.NEVER, id="while the claim had no volume"),
        pytest.param(16, "", Usage.NEVER, id="without a node"),
    ],
)
@pytest.mark.req("R8.released")
def test_deleted_pod_is_remembered(deleted_after: int, node: str, expected: Usage) -> None:
    history = observed()
    history.pod_changed(user(node), None, deleted_after - 1)
    history.pod_changed(None, user(""), deleted_after)
    assert history.usage(bound(), (), WatchPosition(5, 30)) is expected


@pytest.mark.req("R8.released")
def test_deletion_is_as_late_as_the_watch_at_the_next_look() -> None:
    """The version of a deletion is not known when it is reported."""
    history = observed(seen=15)
    history.pod_changed(user(), None, 14)
    assert history.usage(bound(), (), WatchPosition(5, 16)) is Usage.MAYBE


def test_claim_that_was_never_seen_without_a_volume_is_unknown() -> None:
    history = UsageHistory()
    history.claim_changed(None, bound(), 30)
    history.claim_changed(bound(), bound(21), 30)
    assert history.usage(bound(), (), WatchPosition(0, 50)) is Usage.UNKNOWN


def test_next_claim_of_the_name_is_not_judged_by_pods_of_the_earlier_one() -> None:
    history = observed()
    history.pod_changed(user(), None, 30)
    history.pod_changed(None, user(""), 31)
    history.claim_changed(bound(), None, 40)
    assert history.bound_at(bound()) == 0.0
    again = a_claim(name="c", uid="next", version="41")
    history.claim_changed(again, a_claim(name="c", uid="next", volume="v", version="45"), 41)
    assert history.usage(again, (), WatchPosition(5, 50)) is Usage.NEVER


def test_late_news_of_a_deleted_claim_do_not_hide_a_pod() -> None:
    """Claims are shown later than pods: the pod may have had the next claim of that name."""
    history = observed()
    history.pod_changed(user(), None, 60)
    history.pod_changed(None, user(""), 61)
    history.claim_changed(bound(), None, 40)
    again = a_claim(name="c", uid="next", version="41")
    history.claim_changed(again, a_claim(name="c", uid="next", volume="v", version="45"), 41)
    assert history.usage(again, (), WatchPosition(5, 70)) is Usage.MAYBE


@pytest.mark.parametrize(
    ("claims_seen", "released"),
    [
        pytest.param(29, False, id="the claim may have existed when the pod was deleted"),
        pytest.param(30, True, id="it did not exist any more"),
    ],
)
def test_pods_of_a_deleted_claim_are_released(claims_seen: int, released: bool) -> None:
    history = UsageHistory()
    history.pod_changed(user(), None, 25)
    assert history.forget_claim(bound().key, pods_seen=30, claims_seen=claims_seen) is released
    history.claim_changed(unbound(), bound(), 11)
    expected = Usage.NEVER if released else Usage.MAYBE
    assert history.usage(bound(), (), WatchPosition(5, 40)) is expected


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "MAX_LEFT", 2)
    history = observed()
    for number in range(3):
        history.pod_changed(a_pod(name="p", claims=[f"c{number}"], node="n1"), None, 20 + number)
    assert history.usage(bound(), (), WatchPosition(5, 30)) is Usage.UNKNOWN
    history.claim_changed(unbound(), bound(), 40)
    assert history.usage(bound(), (), WatchPosition(5, 50)) is Usage.NEVER


def test_deletions_that_were_not_reported_are_unknown() -> None:
    history = observed(seen=15)
    history.forget(16)
    assert history.usage(bound(), (), WatchPosition(5, 30)) is Usage.UNKNOWN


def pair(**changes: Any) -> BoundPair:  # noqa: ANN401  the fields of the pair
    marks = {well_known.PROVISIONED_BY: "csi.example.com"}
    given: dict[str, Any] = {
        "claim": bound(),
        "volume": a_volume(name=VOLUME, node="n1", annotations=marks, claim_ref=claim_ref(name="c", uid=UID)),
        "storage_class": a_class(annotations={well_known.UNUSED_CLAIMS: "1m"}),
        "pods": (a_pod(name="p", claims=["c"], conditions=[REJECTED]),),
        "attachments": (),
        "usage": Usage.NEVER,
    }
    return BoundPair(**(given | changes))


def attachment(volume: str) -> VolumeAttachment:
    source = AttachmentSource(persistent_volume_name=volume)
    return VolumeAttachment(spec=AttachmentSpec(attacher="csi.example.com", node_name="n1", source=source))


@pytest.mark.req("R8.released")
def test_proved_claim_of_a_blocked_pod_may_be_replaced() -> None:
    assert replacement_refusal(pair(attachments=(attachment("other"),)), SINCE + DELAY) is None


CODES: Final = UnusedRefusalCode
MARKED: Final = {well_known.BOUND_BY_CONTROLLER: "yes", ROLLBACK: "yes"}
OWNED: Final = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-1", "controller": True}
STATIC: Final = a_volume(name=VOLUME, node="n1", claim_ref=claim_ref(name="c", uid=UID))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        pytest.param(CODES.CLASS_NOT_OPTED_IN, {"storage_class": a_class()}, id="no annotation"),
        pytest.param(CODES.CLASS_NOT_OPTED_IN, {"storage_class": None}, id="no class"),
        pytest.param(
            CODES.BAD_POLICY, {"storage_class": a_class(annotations={well_known.UNUSED_CLAIMS: "soon"})}, id="policy"
        ),
        pytest.param(CODES.NOT_BLOCKING, {"pods": ()}, id="no pod"),
        pytest.param(CODES.NOT_BLOCKING, {"pods": (a_pod(claims=["c"]),)}, id="a pod that no scheduler has rejected"),
        pytest.param(CODES.DELAY_NOT_OVER, {"bound_at": SINCE + 1}, id="just bound"),
        pytest.param(CODES.CLAIM_CHANGING, {"claim": bound(deleting=True)}, id="being deleted"),
        pytest.param(CODES.CLAIM_CHANGING, {"claim": bound(annotations=MARKED)}, id="being unbound"),
        pytest.param(CODES.NOT_BOUND, {"volume": None}, id="volume is deleted"),
        pytest.param(CODES.NOT_BOUND, {"claim": bound(bound=False)}, id="half bound"),
        pytest.param(CODES.NOT_BOUND, {"volume": a_volume(name=VOLUME, node="n1")}, id="volume of no claim"),
        pytest.param(
            CODES.IMMEDIATE_BINDING,
            {"storage_class": a_class(binding_mode="Immediate", annotations={well_known.UNUSED_CLAIMS: "1m"})},
            id="immediate",
        ),
        pytest.param(CODES.VOLUME_CHOSEN, {"claim": bound(annotations={})}, id="its user named the volume"),
        pytest.param(CODES.POD_OWNED, {"claim": bound(owners=[OWNED])}, id="ephemeral"),
        pytest.param(CODES.NOT_MADE_FOR_CLAIM, {"volume": STATIC}, id="static volume"),
        pytest.param(CODES.POD_HAD_NODE, {"pods": (*pair().pods, user())}, id="a pod has a node"),
        pytest.param(CODES.ATTACHED, {"attachments": (attachment(VOLUME),)}, id="attached"),
        pytest.param(CODES.POD_HAD_NODE, {"usage": Usage.MAYBE}, id="a pod had a node"),
        pytest.param(CODES.HISTORY_UNKNOWN, {"usage": Usage.UNKNOWN}, id="not watched"),
        pytest.param(CODES.HISTORY_UNKNOWN, {"usage": Usage.PENDING}, id="not watched until now"),
    ],
)
@pytest.mark.req("R8.released")
def test_every_other_claim_is_refused_with_a_reason(code: UnusedRefusalCode, changes: dict[str, Any]) -> None:
    refusal = replacement_refusal(pair(**changes), SINCE + DELAY)
    assert refusal is not None
    assert refusal.code is code
    assert refusal.reason


def test_volume_that_every_node_reaches_blocks_no_pod() -> None:
    marks = {well_known.PROVISIONED_BY: "csi.example.com"}
    volume = a_volume(name=VOLUME, annotations=marks, claim_ref=claim_ref(name="c", uid=UID))
    refusal = replacement_refusal(pair(volume=volume), SINCE + DELAY)
    assert refusal is not None
    assert refusal.code is CODES.REACHABLE_EVERYWHERE


def test_delay_says_when_it_is_over() -> None:
    refusal = replacement_refusal(pair(bound_at=SINCE + 20), SINCE + 30)
    assert refusal is not None
    assert refusal.seconds == 50.0


@pytest.mark.parametrize(
    ("times", "factor"), [("", 1), ("1", 2), ("3", 8), ("100", 256), ("-1", 1), ("many", 1), ("9" * 5000, 1), ("²", 1)]
)
def test_delay_doubles_with_each_replacement(times: str, factor: int) -> None:
    claim = bound(annotations={well_known.TIMES_REPLACED: times})
    assert delay_until_replaced(claim, a_class(annotations={well_known.UNUSED_CLAIMS: "1m"})) == factor * DELAY


@pytest.mark.parametrize(
    "pod",
    [
        user(conditions=[REJECTED]),
        user("", conditions=[REJECTED], deleting=True),
        user("", conditions=[REJECTED | {"reason": "SchedulingGated"}]),
        user("", conditions=[REJECTED | {"lastTransitionTime": "yesterday"}]),
    ],
)
def test_only_a_rejected_pod_without_a_node_waits(pod: Pod) -> None:
    assert unschedulable_since(pod) is None
    assert unschedulable_since(user("", conditions=[REJECTED])) == SINCE
