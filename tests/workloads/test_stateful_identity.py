"""Names, revisions and bodies of a StatefulSet's pods and claims."""

import msgspec
import pytest

from builders import a_pod
from mooring.api import keys
from mooring.api.kinds import STATEFUL_SET
from mooring.workloads.stateful_identity import claim_bodies, ordinal_of, ordinals, pod_body, revision
from workloads.stateful_sets import a_set, set_body


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param("web-0", 0, id="the first"),
        pytest.param("web-12", 12, id="two digits"),
        pytest.param("web-01", None, id="no ordinal is written like this"),
        pytest.param("web-", None, id="no number"),
        pytest.param("web-x", None, id="a letter"),
        pytest.param("web-²", None, id="a digit of another script"),
        pytest.param("other-1", None, id="another set's"),
        pytest.param("web-db-1", None, id="a set whose name begins alike"),
        pytest.param("1", None, id="only a number"),
    ],
)
def test_ordinal_of_a_pod(name: str, wanted: int | None) -> None:
    assert ordinal_of(a_set(), a_pod(name=name)) == wanted


def test_ordinals_may_begin_anywhere() -> None:
    assert list(ordinals(a_set(replicas=2))) == [0, 1]
    assert list(ordinals(a_set(replicas=2, start=5))) == [5, 6]


def test_revision_names_the_template_whatever_its_order() -> None:
    body = set_body(uid="web-uid")
    shuffled = body | {"spec": body["spec"] | {"template": dict(reversed(body["spec"]["template"].items()))}}
    first, second = (STATEFUL_SET.decode(msgspec.json.encode(one)) for one in (body, shuffled))
    assert first.spec.template != second.spec.template
    assert revision(first) == revision(second)
    assert revision(first).name.startswith("web-")
    assert revision(a_set(image="example.com/web:2")) != revision(first)
    assert revision(a_set(replicas=9)) == revision(first)


def test_pod_of_a_set() -> None:
    stateful_set = a_set(claims=["data"], template={"unknownToViews": {"kept": True}, "volumes": [{"name": "tmp"}]})
    body = pod_body(stateful_set, 2, revision(stateful_set))
    assert body["metadata"]["name"] == body["spec"]["hostname"] == "web-2"
    assert body["metadata"]["labels"] == {
        "app": "web",
        keys.STATEFUL_POD_NAME: "web-2",
        keys.POD_INDEX: "2",
        keys.CONTROLLER_REVISION_HASH: revision(stateful_set).name,
    }
    [owner] = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("StatefulSet", "web", "web-uid")
    assert owner["controller"] is owner["blockOwnerDeletion"] is True
    assert body["spec"]["subdomain"] == "web"
    assert body["spec"]["unknownToViews"] == {"kept": True}
    assert body["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
        {"name": "tmp"},
    ]


def test_claim_template_replaces_a_volume_of_its_name() -> None:
    stateful_set = a_set(claims=["data"], template={"volumes": [{"name": "data", "emptyDir": {}}]})
    assert pod_body(stateful_set, 0, revision(stateful_set))["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    ]


def test_claims_of_a_set() -> None:
    data, log = claim_bodies(a_set(claims=["data", "log"]), 1)
    assert data["metadata"] == {
        "name": "data-web-1",
        "labels": {"kind": "data", "app": "web"},
        "annotations": {"note": "kept"},
    }
    assert data["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert "status" not in data
    assert log["metadata"]["name"] == "log-web-1"
