"""Which claims could be unbound again, and what would become of their volumes."""

import msgspec
import pytest

from builders import a_claim, a_pod, a_volume, claim_ref
from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.meta import Condition
from mooring.api.views.pod import ContainerStatus, Pod
from mooring.api.views.volume import Volume
from mooring.volumes.clean_claims import (
    CLEAN,
    ROLLBACK,
    Fate,
    clean,
    dirty,
    fate,
    forsaken_by,
    forsaken_uid,
    is_clean,
    is_near,
    may_unbind,
    why_kept,
)

UID = "11111111-2222-3333-4444-555555555555"
NOW = "2026-01-02T03:04:05Z"
CHOSEN = {keys.BOUND_BY_CONTROLLER: keys.YES}
MADE = {keys.PROVISIONED_BY: "csi.example.com"}


def bound(*, said: str = "True", notes: dict[str, str] | None = None, deleting: bool = False) -> Claim:
    marks = CHOSEN if notes is None else notes
    claim = a_claim(name="a", uid=UID, volume="volume-1", bound=True, annotations=marks, deleting=deleting)
    conditions = (Condition(type=CLEAN, status=said),) if said else ()
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))


def volume(*, name: str = "volume-1", notes: dict[str, str] = CHOSEN, reclaim: str = "Retain") -> Volume:
    return a_volume(name=name, annotations=notes, reclaim=reclaim, claim_ref=claim_ref(name="a", uid=UID))


@pytest.mark.req("T39.absent-is-dirty")
@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param("True", True, id="says that it is"),
        pytest.param("False", False, id="says that it is not"),
        pytest.param("Unknown", False, id="does not know"),
        pytest.param("", False, id="does not say"),
    ],
)
def test_only_a_claim_that_says_so_is_clean(said: str, want: bool) -> None:
    assert is_clean(bound(said=said)) is want
    assert may_unbind(bound(said=said, notes={ROLLBACK: keys.YES})) is want
    assert not may_unbind(bound(said=said))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(volume(), Fate.FREED, id="an existing volume that was chosen for the claim"),
        pytest.param(
            volume(notes=MADE | CHOSEN, name=f"pvc-{UID}"),
            Fate.FREED,
            id="a volume that was made once, used, kept, and chosen again: never deleted",
        ),
        pytest.param(
            volume(notes=MADE, name=f"pvc-{UID}", reclaim="Delete"), Fate.REMOVED, id="a volume made for this claim"
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
            id="a volume made for this claim that nobody shall delete",
        ),
    ],
)
def test_fate_of_a_volume(given: Volume, want: Fate | str) -> None:
    assert fate(bound(), given) == want


@pytest.mark.req("T39", "T40")
@pytest.mark.parametrize(
    ("claim", "given", "want"),
    [
        pytest.param(bound(), volume(), None, id="clean, and somebody else's choice"),
        pytest.param(bound(said="False"), volume(), "a pod may have used its volume", id="dirty"),
        pytest.param(bound(said=""), volume(), "a pod may have used its volume", id="nobody has kept count"),
        pytest.param(bound(deleting=True), volume(), "it is being deleted", id="on its way out"),
        pytest.param(bound(), None, 'volume "volume-1" is not there', id="volume not known"),
        pytest.param(bound(notes={}), volume(), 'it asks for volume "volume-1" itself', id="the user's choice"),
        pytest.param(
            bound(), volume(notes={}), 'volume "volume-1" was reserved for the claim by hand', id="an administrator's"
        ),
    ],
)
def test_why_a_claim_keeps_its_volume(claim: Claim, given: Volume | None, want: str | None) -> None:
    assert why_kept(claim, given) == want


def test_a_claim_that_is_not_completely_bound_is_left_alone() -> None:
    half = bound()
    notes = {name: text for name, text in half.metadata.annotations.items() if name != keys.BIND_COMPLETED}
    half = msgspec.structs.replace(half, metadata=msgspec.structs.replace(half.metadata, annotations=notes))
    assert why_kept(half, volume()) == "it is not completely bound"


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
def test_who_has_come_near_a_volume(node: str, phase: str, containers: int, want: bool) -> None:
    pod: Pod = a_pod(node=node, phase=phase)
    statuses = tuple(ContainerStatus(name=f"c{number}") for number in range(containers))
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=statuses))
    assert is_near(pod) is want


def test_a_forsaken_volume_knows_whose_it_was() -> None:
    claim = bound()
    assert forsaken_by(a_volume(claim_ref=claim_ref(name="a", uid=forsaken_uid(claim)))) == UID
    assert forsaken_by(volume()) == ""
    assert forsaken_by(a_volume()) == ""


def test_conditions_say_who_when_and_where() -> None:
    assert clean(now=NOW)["status"] == "True"
    assert dirty("default/p", "n1", now=NOW)["message"] == "Pod default/p was admitted on node n1"
