"""What claims get on nodes, and which criterion keeps which volume from them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import CLAIM, NODE, VOLUME
from mooring.explain.volume_candidates import MAX_LISTED
from mooring.volumes.matching import Criterion, requirements_of
from mooring.volumes.state import ConflictReason
from support.builders import Body, capacity_body, claim_body, class_body, driver_body, node_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.explain.clusters import claim_on, explained, listed

MADE = class_body(name="made", provisioner=DRIVER)


def world(*things: Body, claims: tuple[str, ...] = ("data",)) -> tuple[Body, ...]:
    return (class_body(), node_body(name="n1"), node_body(name="n2"), pod_body(claims=claims), *things)


@pytest.mark.parametrize(
    ("volume", "criterion"),
    [
        pytest.param(volume_body(size="1Gi"), "SIZE", id="too small"),
        pytest.param(volume_body(size="huge"), "SIZE", id="an invalid size"),
        pytest.param(volume_body(mode="Block"), "MODE", id="another mode"),
        pytest.param(volume_body(storage_class="other"), "CLASS", id="another class"),
        pytest.param(volume_body(node="n2"), "AFFINITY", id="on another node"),
        pytest.param(volume_body(access_modes=["ReadOnlyMany"]), "ACCESS_MODES", id="other access modes"),
        pytest.param(volume_body(phase="Released"), "PHASE", id="released"),
        pytest.param(volume_body(deleting=True), "DELETING", id="being deleted"),
        pytest.param(
            volume_body(claim_ref={"namespace": "default", "name": "other"}), "RESERVED", id="for another claim"
        ),
    ],
)
def test_the_criterion_a_volume_fails_is_named(volume: Body, criterion: str) -> None:
    verdict = claim_on(explained(*world(claim_body(name="data"), volume)), "n1", "data")
    assert verdict.state == "unserved"
    assert verdict.reason == ConflictReason.NO_VOLUME
    assert [(one.volume, one.criterion) for one in verdict.candidates] == [("volume-1", criterion)]
    assert verdict.failed == {criterion: 1}


def test_a_nodes_own_volumes_are_named_first() -> None:
    small = [volume_body(name=f"v{number}", node=f"n{number}", size="1Gi") for number in (1, 2)]
    verdict = explained(*world(claim_body(name="data"), *small))
    assert [one.volume for one in claim_on(verdict, "n1", "data").candidates] == ["v1", "v2"]
    assert [one.volume for one in claim_on(verdict, "n2", "data").candidates] == ["v2", "v1"]


def test_a_volume_needed_by_another_claim_of_the_pod_is_reported_as_such() -> None:
    things = (claim_body(name="a"), claim_body(name="b", size="6Gi"), volume_body(name="v1", node="n1"))
    verdict = explained(*world(*things, claims=("a", "b")))
    served = {one.claim: one.state for one in verdict.nodes["n1"].volumes}
    assert sorted(served.values()) == ["bind", "unserved"]
    [left] = [one for one in verdict.nodes["n1"].volumes if one.state == "unserved"]
    assert [(one.volume, one.criterion) for one in left.candidates] == [("v1", "")]


def test_the_failing_claim_is_distinguished_from_the_other_claims_of_the_pod() -> None:
    things = (claim_body(name="a"), claim_body(name="b", size="1Ti"), volume_body(name="v1", node="n1"))
    verdict = explained(*world(*things, claims=("a", "b")))
    assert claim_on(verdict, "n1", "a").state == "bind"
    assert claim_on(verdict, "n1", "b").state == "unserved"
    assert not verdict.nodes["n1"].fits


def test_a_volume_would_be_made_where_the_class_allows_it() -> None:
    made = class_body(name="made", provisioner=DRIVER, allowed_topologies=[{"kubernetes.io/hostname": ["n1"]}])
    verdict = explained(*world(made, claim_body(name="data", storage_class="made")))
    assert claim_on(verdict, "n1", "data").state == "provision"
    assert claim_on(verdict, "n1", "data").storage_class == "made"
    assert claim_on(verdict, "n2", "data").reason == ConflictReason.NO_VOLUME


def test_a_class_with_zones_in_parameters_allows_only_those_zones() -> None:
    zonal = class_body(name="made", provisioner="kubernetes.io/gce-pd") | {"parameters": {"zones": "b"}}
    verdict = claim_on(explained(*world(zonal, claim_body(name="data", storage_class="made"))), "n1", "data")
    assert verdict.detail == "class made allows volumes only in topology.kubernetes.io/zone=b"


def test_missing_capacity_is_distinguished_from_missing_volumes() -> None:
    room = capacity_body(topology={"matchLabels": {"kubernetes.io/hostname": "n1"}}, capacity="1Gi")
    things = (MADE, driver_body(tracks_capacity=True), room, claim_body(name="data", storage_class="made"))
    assert claim_on(explained(*world(*things)), "n1", "data").reason == ConflictReason.STORAGE_CAPACITY


def test_a_claim_under_way_to_another_node_is_bound_to_that() -> None:
    verdict = explained(*world(MADE, claim_body(name="data", storage_class="made", selected_node="n2")))
    assert claim_on(verdict, "n1", "data").state == "unserved"
    assert claim_on(verdict, "n2", "data").state == "provision"


def test_of_many_volumes_the_nearest_are_named_and_all_are_counted() -> None:
    small = [volume_body(name=f"small-{number:02}", size="1Gi") for number in range(MAX_LISTED)]
    afar = [volume_body(name=f"afar-{number:02}", node="n2") for number in range(MAX_LISTED)]
    almost = volume_body(name="almost", node="n1", access_modes=["ReadOnlyMany"])
    own = volume_body(name="very-small", node="n1", size="1Mi")
    verdict = claim_on(explained(*world(claim_body(name="data"), *afar, *small, own, almost)), "n1", "data")
    assert len(verdict.candidates) == MAX_LISTED
    assert verdict.candidates[0].volume == "almost"
    assert verdict.failed == {"SIZE": MAX_LISTED + 1, "AFFINITY": MAX_LISTED, "ACCESS_MODES": 1}


volumes = st.builds(
    volume_body,
    size=st.sampled_from(["1Gi", "5Gi", "9Gi"]),
    storage_class=st.sampled_from(["local", "other"]),
    node=st.sampled_from(["", "n1", "n2"]),
    mode=st.sampled_from(["Filesystem", "Block"]),
    access_modes=st.sampled_from([["ReadWriteOnce"], ["ReadOnlyMany"], ["ReadWriteOnce", "ReadOnlyMany"]]),
    phase=st.sampled_from(["Available", "Available", "Released"]),
)
claims = st.builds(
    claim_body,
    size=st.sampled_from(["2Gi", "5Gi", "8Gi"]),
    storage_class=st.sampled_from(["local", "made"]),
    selected_node=st.sampled_from([None, None, None, "n1"]),
)


def named(kind: str, bodies: list[Body]) -> list[Body]:
    return [body | {"metadata": body["metadata"] | {"name": f"{kind}-{number}"}} for number, body in enumerate(bodies)]


@given(
    st.lists(volumes, max_size=6).map(lambda bodies: named("v", bodies)),
    st.lists(claims, min_size=1, max_size=3).map(lambda bodies: named("c", bodies)),
)
def test_explanations_agree_with_the_decision_and_with_the_matcher(all_volumes: list[Body], own: list[Body]) -> None:
    names = tuple(str(body["metadata"]["name"]) for body in own)
    made = class_body(name="made", provisioner=DRIVER, allowed_topologies=[{"kubernetes.io/hostname": ["n1"]}])
    things = world(made, *all_volumes, *own, claims=names)
    verdict = explained(*things)
    objects = listed(*things)
    for name, node in verdict.nodes.items():
        # A node fits exactly where every claim gets something, and nothing is given away twice.
        assert node.fits == all(one.state != "unserved" for one in node.volumes)
        given_away = [one.volume for one in node.volumes if one.state == "bind"]
        assert len(given_away) == len(set(given_away))
        labels = next(one for one in objects.of(NODE) if one.name == name).metadata.labels
        for one in node.volumes:
            claim = objects.get(CLAIM, one.claim)
            assert claim is not None
            for candidate in one.candidates:
                volume = objects.get(VOLUME, candidate.volume)
                assert volume is not None
                criterion = requirements_of(claim).first_mismatch(volume, node=labels)
                if volume.storage_class != claim.storage_class:
                    # Of another class nothing else is worth saying.
                    criterion = Criterion.CLASS
                assert candidate.criterion == ("" if criterion is None else criterion.name)
            if one.state == "unserved":
                needed = sum(not candidate.criterion for candidate in one.candidates)
                alike = [each for each in all_volumes if each["spec"]["storageClassName"] == claim.storage_class]
                assert needed + sum(one.failed.values()) == len(alike or all_volumes)


def test_a_verdict_is_json() -> None:
    verdict = explained(*world(claim_body(name="data"), volume_body(name="v1", node="n1")))
    told = msgspec.json.decode(msgspec.json.encode(verdict))
    assert told["nodes"]["n1"] == {
        "fits": True,
        "reasons": [],
        "volumes": [{"claim": "default/data", "state": "bind", "volume": "v1", "storageClass": "local"}],
    }
