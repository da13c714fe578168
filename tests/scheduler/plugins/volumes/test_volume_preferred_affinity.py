"""Preferred node affinity of volumes: a score, never a filter."""

import json

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Volume
from mooring.scheduler.plugins.volume_binding import VolumePreferredAffinity
from mooring.volumes.scoring import MAX_PREFERRED_AFFINITY_CHARACTERS, preferred_nodes, preferred_nodes_problem
from support.builders import Body, a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from support.scheduler.snapshots import a_snapshot, scored

pytestmark = pytest.mark.req("T51.score")

NODES = [a_node(name=f"{zone}{number}", zone=zone, labels={"disk": number}) for zone in "ab" for number in "12"]
CLASS = a_class(name="made")


def prefers(weight: int, key: str, value: str) -> Body:
    return {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}


def volume(*preferred: Body, name: str = "v1", text: str = "") -> Volume:
    return a_volume(
        name=name,
        storage_class="made",
        claim_ref=claim_ref(name=f"claim-of-{name}", uid=f"uid-{name}"),
        phase="Bound",
        source={"csi": {"driver": "d", "volumeHandle": name}},
        annotations={well_known.PREFERRED_NODE_AFFINITY: text or json.dumps(preferred)},
    )


def bound(name: str = "v1") -> ApiObject:
    return a_claim(name=f"claim-of-{name}", uid=f"uid-{name}", storage_class="made", volume=name, bound=True)


IN_B, ON_2 = prefers(10, well_known.ZONE, "b"), prefers(5, "disk", "2")


@pytest.mark.parametrize(
    ("preferred", "want"),
    [
        pytest.param([IN_B], {"a1": 0, "a2": 0, "b1": 100, "b2": 100}, id="one term"),
        pytest.param([IN_B, ON_2], {"a1": 0, "a2": 33, "b1": 66, "b2": 100}, id="weights add up"),
        pytest.param([prefers(10, "disk", "9")], {"a1": 0, "a2": 0, "b1": 0, "b2": 0}, id="matches no node"),
    ],
)
def test_nodes_score_by_the_weights_of_matching_terms(preferred: list[Body], want: dict[str, float]) -> None:
    pod = a_pod(claims=["claim-of-v1"])
    assert scored(VolumePreferredAffinity(), pod, a_snapshot(*NODES, CLASS, volume(*preferred), bound())) == want


def test_preferences_of_all_volumes_of_the_pod_count() -> None:
    pod = a_pod(claims=["claim-of-v1", "claim-of-v2"])
    objects = (volume(IN_B), bound(), volume(ON_2, name="v2"), bound("v2"))
    want = {"a1": 0, "a2": 33, "b1": 66, "b2": 100}
    assert scored(VolumePreferredAffinity(), pod, a_snapshot(*NODES, CLASS, *objects)) == want


def test_volume_that_is_reserved_for_an_unbound_claim_counts() -> None:
    unbound = a_claim(name="claim-of-v1", uid="uid-v1", storage_class="made")
    pod = a_pod(claims=["claim-of-v1"])
    found = scored(VolumePreferredAffinity(), pod, a_snapshot(*NODES, CLASS, volume(IN_B), unbound))
    assert found == {"a1": 0, "a2": 0, "b1": 100, "b2": 100}


def test_pod_without_such_volumes_is_not_scored() -> None:
    plain = a_volume(name="v1", storage_class="made", claim_ref=claim_ref(name="claim-of-v1", uid="uid-v1"))
    for pod, objects in ((a_pod(claims=["claim-of-v1"]), (plain, bound())), (a_pod(), ())):
        assert scored(VolumePreferredAffinity(), pod, a_snapshot(*NODES, CLASS, *objects)) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("nonsense", "JSON is malformed", id="no JSON"),
        pytest.param('{"weight": 1}', "Expected `array`", id="no list"),
        pytest.param(json.dumps([IN_B | {"weight": 0}]), "every weight must be in the range 1-100", id="weight 0"),
        pytest.param(json.dumps([IN_B | {"weight": 101}]), "every weight must be in the range 1-100", id="weight 101"),
        pytest.param(
            '[{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]',
            'Unsupported value: "Near"',
            id="unknown operator",
        ),
        pytest.param(" " * MAX_PREFERRED_AFFINITY_CHARACTERS + "[]", "longer than", id="too long"),
    ],
)
def test_invalid_annotation_is_reported_and_does_not_count(text: str, problem: str) -> None:
    wrong = volume(text=text)
    assert preferred_nodes(wrong) == ()
    assert problem in preferred_nodes_problem(wrong)
    snapshot = a_snapshot(*NODES, CLASS, bound())
    assert problem in snapshot.volumes.observe_volume(None, wrong)
    assert scored(VolumePreferredAffinity(), a_pod(claims=["claim-of-v1"]), snapshot) is None
