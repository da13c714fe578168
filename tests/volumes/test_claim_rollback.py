"""Which claims could be unbound again, and what would become of their volumes."""

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.views.meta import Condition
from mooring.api.views.pods import ContainerStatus, Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.claim_rollback import (
    CLEAN,
    ROLLBACK,
    UnboundVolumeAction,
    clean_condition,
    detached_claim_uid,
    detached_from,
    dirty_condition,
    is_clean,
    may_have_used_volumes,
    may_unbind,
    unbind_blocker,
    unbound_volume_action,
)
from support.builders import a_claim, a_pod, a_volume, claim_ref

UID = "11111111-2222-3333-4444-555555555555"
NOW = "2026-01-02T03:04:05Z"
CHOSEN = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
MADE = {well_known.PROVISIONED_BY: "csi.example.com"}


def bound(*, clean: str = "True", notes: dict[str, str] | None = None, deleting: bool = False) -> Claim:
    marks = CHOSEN if notes is None else notes
    claim = a_claim(name="a", uid=UID, volume="volume-1", bound=True, annotations=marks, deleting=deleting)
    conditions = (Condition(type=CLEAN, status=clean),) if clean else ()
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))


def volume(*, name: str = "volume-1", notes: dict[str, str] = CHOSEN, reclaim: str = "Retain") -> Volume:
    return a_volume(name=name, annotations=notes, reclaim=reclaim, claim_ref=claim_ref(name="a", uid=UID))


@pytest.mark.req("T39.absent-is-dirty")
@pytest.mark.parametrize(
    ("clean", "want"),
    [
        pytest.param("True", True, id="says that it is"),
        pytest.param("False", False, id="says that it is not"),
        pytest.param("Unknown", False, id="does not know"),
        pytest.param("", False, id="does not say"),
    ],
)
def test_only_a_claim_that_says_so_is_clean(clean: str, want: bool) -> None:
    assert is_clean(bound(clean=clean)) is want
    assert may_unbind(bound(clean=clean, notes={ROLLBACK: well_known.ANNOTATION_SET})) is want
    assert not may_unbind(bound(clean=clean))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(volume(), UnboundVolumeAction.FREED, id="an existing volume that was chosen for the claim"),
        pytest.param(
            volume(notes=MADE | CHOSEN, name=f"pvc-{UID}"),
            UnboundVolumeAction.FREED,
            id="a volume that was made once, used, kept, and chosen again: never deleted",
        ),
        pytest.param(
            volume(notes=MADE, name=f"pvc-{UID}", reclaim="Delete"),
            UnboundVolumeAction.REMOVED,
            id="a volume made for this claim",
        ),
        pytest.param(
            volume(notes={}), 'volume "volume-1" was reserved for the claim by hand', id="a volume a person reserved"
        ),
        pytest.param(
            volume(notes=MADE, reclaim="Delete"),
            'volume "volume-1" was reserved for the claim by hand',
            id="a volume made for another claim, reserved by hand",
        ),
        pytest.param(
            volume(notes=MADE, name=f"pvc-{UID}"),
            f'volume "pvc-{UID}" was made for the claim and is to be retained',
            id="a volume provisioned for this claim that is retained",
        ),
    ],
)
def test_fate_of_a_volume(given: Volume, want: UnboundVolumeAction | str) -> None:
    assert unbound_volume_action(bound(), given) == want


@pytest.mark.req("T40.only-clean")
@pytest.mark.parametrize(
    ("claim", "given", "want"),
    [
        pytest.param(bound(), volume(), None, id="clean, on a node of another's choice"),
        pytest.param(bound(clean="False"), volume(), "a pod may have used its volume", id="dirty"),
        pytest.param(bound(clean=""), volume(), "a pod may have used its volume", id="no condition"),
        pytest.param(bound(deleting=True), volume(), "it is being deleted", id="on its way out"),
        pytest.param(bound(), None, 'volume "volume-1" is not there', id="volume not known"),
        pytest.param(
            bound(),
            a_volume(name="volume-1", annotations=CHOSEN, claim_ref=claim_ref(name="b")),
            'volume "volume-1" does not belong to it',
            id="another claim's volume",
        ),
        pytest.param(bound(notes={}), volume(), 'it asks for volume "volume-1" itself', id="the user's choice"),
        pytest.param(
            bound(), volume(notes={}), 'volume "volume-1" was reserved for the claim by hand', id="an administrator's"
        ),
    ],
)
def test_why_a_claim_keeps_its_volume(claim: Claim, given: Volume | None, want: str | None) -> None:
    assert unbind_blocker(claim, given) == want


def test_a_claim_that_is_not_completely_bound_is_left_alone() -> None:
    half = bound()
    notes = {name: text for name, text in half.metadata.annotations.items() if name != well_known.BIND_COMPLETED}
    half = msgspec.structs.replace(half, metadata=msgspec.structs.replace(half.metadata, annotations=notes))
    assert unbind_blocker(half, volume()) == "it is not completely bound"


@pytest.mark.parametrize(
    ("node", "phase", "containers", "want"),
    [
        pytest.param("", "Pending", 0, False, id="no node yet"),
        pytest.param("n1", "Pending", 0, True, id="its node has not said anything"),
        pytest.param("n1", "Running", 1, True, id="runs"),
        pytest.param("n1", "Failed", 0, False, id="refused by its node"),
        pytest.param("n1", "Failed", 1, True, id="ran and failed"),
        pytest.param("n1", "Succeeded", 1, True, id="ran to its end"),
    ],
)
def test_pods_that_may_have_used_volumes(node: str, phase: str, containers: int, want: bool) -> None:
    pod: Pod = a_pod(node=node, phase=phase)
    statuses = tuple(ContainerStatus(name=f"c{number}") for number in range(containers))
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=statuses))
    assert may_have_used_volumes(pod) is want


def test_detached_volume_has_the_uid_of_its_claim() -> None:
    claim = bound()
    assert detached_from(a_volume(claim_ref=claim_ref(name="a", uid=detached_claim_uid(claim)))) == UID
    assert detached_from(volume()) == ""
    assert detached_from(a_volume()) == ""


def test_conditions_name_pod_node_and_time() -> None:
    assert clean_condition(now=NOW)["status"] == "True"
    assert dirty_condition("default/p", "n1", now=NOW)["message"] == "Pod default/p was admitted on node n1"
