"""Names, revisions and bodies of a StatefulSet's pods and claims.

What a StatefulSet does next, row by row: the set, its pods, and the actions in order.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mooring.api import times, well_known
from mooring.api.kinds import STATEFUL_SET
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.api.views.workloads import StatefulSet
from mooring.controllers.workloads.pod_rules import Revision, Revisions, has_status, revision_of
from mooring.controllers.workloads.statefulset import (
    Action,
    CreatePod,
    DeletePod,
    OwnClaim,
    ReplacePod,
    RestoreClaims,
    StatefulSetPlan,
    StatefulSetState,
    claim_bodies,
    ordinal_of,
    ordinals,
    plan_stateful_set,
    pod_body,
    stateful_set_status,
)
from support.builders import a_claim, a_pod, owned_by
from support.builders.stateful_sets import LONG_AGO, a_set, its_pod, set_body


@pytest.mark.parametrize(
    ("name", "want"),
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
def test_ordinal_of_a_pod(name: str, want: int | None) -> None:
    assert ordinal_of(a_set(), a_pod(name=name)) == want


def test_ordinals_may_begin_anywhere() -> None:
    assert list(ordinals(a_set(replicas=2))) == [0, 1]
    assert list(ordinals(a_set(replicas=2, start=5))) == [5, 6]


def test_revision_names_the_template_whatever_its_order() -> None:
    body = set_body(uid="web-uid")
    shuffled = body | {"spec": body["spec"] | {"template": dict(reversed(body["spec"]["template"].items()))}}
    first, second = (STATEFUL_SET.decode(msgspec.json.encode(one)) for one in (body, shuffled))
    assert first.spec.template != second.spec.template
    assert revision_of(first) == revision_of(second)
    assert revision_of(first).name.startswith("web-")
    assert revision_of(a_set(image="example.com/web:2")) != revision_of(first)
    assert revision_of(a_set(replicas=9)) == revision_of(first)


def test_pod_of_a_set() -> None:
    stateful_set = a_set(claims=["data"], template={"unknownToViews": {"kept": True}, "volumes": [{"name": "tmp"}]})
    body = pod_body(stateful_set, 2, revision_of(stateful_set))
    assert body["metadata"]["name"] == body["spec"]["hostname"] == "web-2"
    assert body["metadata"]["labels"] == {
        "app": "web",
        well_known.STATEFUL_POD_NAME: "web-2",
        well_known.POD_INDEX: "2",
        well_known.CONTROLLER_REVISION_HASH: revision_of(stateful_set).name,
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
    assert pod_body(stateful_set, 0, revision_of(stateful_set))["spec"]["volumes"] == [
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


#: What the pods called old in these tests are made from.
OLD_REVISION = Revision("web-0000000000", {"spec": {"containers": [{"name": "main", "image": "old"}]}})
NOW = "2026-01-01T00:00:00Z"
PARALLEL = "Parallel"

Pods = Callable[[StatefulSet], list[Pod]]


def pods(*which: int, **how: Any) -> Pods:  # noqa: ANN401  # passed on to `its_pod`
    return lambda stateful_set: [its_pod(stateful_set, ordinal, **how) for ordinal in which]


def both(*groups: Pods) -> Pods:
    return lambda stateful_set: [pod for group in groups for pod in group(stateful_set)]


def in_words(action: Action) -> str:
    match action:
        case CreatePod(body, claims):
            names = [claim["metadata"]["name"] for claim in claims]
            return " with ".join(["create " + body["metadata"]["name"], *names])
        case RestoreClaims(pod, claims):
            return " with ".join(["restore " + pod, *(claim["metadata"]["name"] for claim in claims)])
        case OwnClaim(claim, owners):
            return " ".join(["own", claim.name, "by", *(owner["name"] for owner in owners)])
        case ReplacePod(pod):
            return f"replace {pod.name}"
        case DeletePod(pod, why):
            return f"delete {pod.name}: {why}"


@pytest.mark.parametrize(
    ("given", "existing", "want"),
    [
        pytest.param({}, pods(), ["create web-0"], id="in order: the first"),
        pytest.param({}, pods(0, ready=False), [], id="in order: waits for the first to be ready"),
        pytest.param({}, pods(0, phase="Pending"), [], id="in order: ready counts only while it runs"),
        pytest.param({}, pods(0), ["create web-1"], id="in order: the second once the first is ready"),
        pytest.param({}, both(pods(0, deleting=True), pods(1, 2)), [], id="in order: waits for one that goes"),
        pytest.param({}, pods(1, 2), ["create web-0"], id="in order: fills the gap"),
        pytest.param({}, pods(0, 1, 2), [], id="in order: complete"),
        pytest.param({"start": 5, "replicas": 1}, pods(), ["create web-5"], id="ordinals begin elsewhere"),
        pytest.param(
            {"policy": PARALLEL}, pods(), ["create web-0", "create web-1", "create web-2"], id="parallel: all at once"
        ),
        pytest.param(
            {"policy": PARALLEL},
            pods(1, ready=False),
            ["create web-0", "create web-2"],
            id="parallel: waits for no other pod",
        ),
        pytest.param({"replicas": 0}, pods(), [], id="none wanted"),
        pytest.param({"deleting": True}, pods(), [], id="a set being deleted makes nothing"),
        pytest.param({"deleting": True, "replicas": 0}, pods(0), [], id="a set being deleted removes nothing"),
    ],
)
@pytest.mark.req("T43.statefulset")
def test_pods_are_made(given: dict[str, Any], existing: Pods, want: list[str]) -> None:
    assert acting(a_set(**given), existing) == want


@pytest.mark.parametrize(
    ("given", "existing", "want"),
    [
        pytest.param({"replicas": 1}, pods(0, 1, 2), ["delete web-2: scaled down"], id="in order: the last"),
        pytest.param(
            {"replicas": 1},
            both(pods(0, 1), pods(2, deleting=True)),
            [],
            id="in order: the next only when the last is gone",
        ),
        pytest.param({"replicas": 1}, both(pods(0, ready=False), pods(1, 2)), [], id="in order: not while one is ill"),
        pytest.param(
            {"replicas": 1, "policy": PARALLEL},
            both(pods(0, ready=False), pods(1, 2)),
            ["delete web-2: scaled down", "delete web-1: scaled down"],
            id="parallel: all at once",
        ),
        pytest.param(
            {"replicas": 2, "policy": PARALLEL},
            pods(0, 4),
            ["create web-1", "delete web-4: scaled down"],
            id="parallel: makes and removes in one go",
        ),
        pytest.param({"replicas": 1, "start": 2}, pods(0, 2), ["delete web-0: scaled down"], id="below the first"),
    ],
)
def test_pods_are_removed(given: dict[str, Any], existing: Pods, want: list[str]) -> None:
    assert acting(a_set(**given), existing) == want


@pytest.mark.parametrize(
    ("given", "existing", "want"),
    [
        pytest.param({}, both(pods(0), pods(1, phase="Failed")), ["replace web-1"], id="a failed pod"),
        pytest.param({}, pods(0, phase="Succeeded"), ["replace web-0"], id="a pod that ended well"),
        pytest.param({}, pods(0, phase="Failed", deleting=True), [], id="a failed pod that goes already"),
        pytest.param(
            {"policy": PARALLEL},
            both(pods(0, phase="Failed"), pods(1)),
            ["replace web-0", "create web-2"],
            id="parallel: beside others",
        ),
    ],
)
def test_pods_that_ended_are_replaced(given: dict[str, Any], existing: Pods, want: list[str]) -> None:
    assert acting(a_set(**given), existing) == want


@pytest.mark.parametrize(
    ("given", "existing", "want"),
    [
        pytest.param({}, pods(0, 1, 2, old=True), ["delete web-2: the template changed"], id="the highest first"),
        pytest.param(
            {}, both(pods(0, 1, old=True), pods(2)), ["delete web-1: the template changed"], id="then the next"
        ),
        pytest.param({}, both(pods(0, 1, old=True), pods(2, ready=False)), [], id="not before that one is ready"),
        pytest.param({}, both(pods(0, 1), pods(2, old=True, deleting=True)), [], id="not while that one goes"),
        pytest.param({"update": "OnDelete"}, pods(0, 1, 2, old=True), [], id="not at all when users delete pods"),
        pytest.param(
            {"partition": 1},
            both(pods(0, 1, old=True), pods(2)),
            ["delete web-1: the template changed"],
            id="partition",
        ),
        pytest.param({"partition": 1}, both(pods(0, old=True), pods(1, 2)), [], id="not below the partition"),
        pytest.param(
            {"partition": 1, "start": 5},
            both(pods(5, 6, old=True), pods(7)),
            ["delete web-6: the template changed"],
            id="the partition counts from the first ordinal",
        ),
        pytest.param(
            {"max_unavailable": 2},
            pods(0, 1, 2, old=True),
            ["delete web-2: the template changed", "delete web-1: the template changed"],
            id="two at once",
        ),
        pytest.param(
            {"max_unavailable": "50%"},
            pods(0, 1, 2, old=True),
            ["delete web-2: the template changed", "delete web-1: the template changed"],
            id="half of them at once, rounded up",
        ),
        pytest.param(
            {"max_unavailable": 2, "policy": PARALLEL},
            both(pods(0, 1, old=True), pods(2, ready=False)),
            ["delete web-1: the template changed"],
            id="one more while another is on its way",
        ),
        pytest.param(
            {"policy": PARALLEL},
            pods(0, 1, 2, old=True, ready=False),
            ["delete web-2: the template changed"],
            id="parallel: a bad template can be repaired",
        ),
        pytest.param(
            {"policy": PARALLEL},
            both(pods(0, 1, old=True), pods(2, ready=False)),
            [],
            id="parallel: one at a time all the same",
        ),
    ],
)
def test_pods_are_updated(given: dict[str, Any], existing: Pods, want: list[str]) -> None:
    assert acting(a_set(**given), existing) == want


@pytest.mark.parametrize(
    ("existing", "there", "want"),
    [
        pytest.param(pods(), [], ["create web-0 with data-web-0 with log-web-0"], id="claims come with the pod"),
        pytest.param(pods(), ["data-web-0"], ["create web-0 with log-web-0"], id="only those that are missing"),
        pytest.param(
            pods(0, ready=False), ["data-web-0"], ["restore web-0 with log-web-0"], id="a claim that went away"
        ),
    ],
)
@pytest.mark.req("T43.statefulset")
def test_claims_are_made(existing: Pods, there: list[str], want: list[str]) -> None:
    assert acting(a_set(claims=["data", "log"]), existing, claims=there) == want


@pytest.mark.req("T43.statefulset")
def test_pod_mounts_the_claims_of_its_ordinal() -> None:
    actions = planned(a_set(claims=["data"]), pods(0), {}).actions
    [made] = [action for action in actions if isinstance(action, CreatePod)]
    mounted = [volume["persistentVolumeClaim"]["claimName"] for volume in made.body["spec"]["volumes"]]
    assert made.body["metadata"]["name"] == "web-1"
    assert mounted == [claim["metadata"]["name"] for claim in made.claims] == ["data-web-1"]


def planned(stateful_set: StatefulSet, existing: Pods, claims: dict[str, Claim], now: str = NOW) -> StatefulSetPlan:
    made = existing(stateful_set)
    revisions = Revisions(OLD_REVISION, revision_of(stateful_set))
    return plan_stateful_set(stateful_set, StatefulSetState(revisions, made, claims.get, times.from_time(now)))


def acting(stateful_set: StatefulSet, existing: Pods, *, claims: list[str] | None = None) -> list[str]:
    there = {name: a_claim(name=name) for name in claims or []}
    return [in_words(action) for action in planned(stateful_set, existing, there).actions]


@pytest.mark.parametrize(
    ("given", "ordinal", "image"),
    [
        pytest.param({"partition": 2}, 1, "old", id="below the partition"),
        pytest.param({"partition": 1}, 1, "example.com/web:1", id="above the partition"),
        pytest.param({}, 0, "old", id="not reached by the rollout yet"),
        pytest.param({}, 2, "example.com/web:1", id="reached by the rollout"),
        pytest.param({"update": "OnDelete"}, 0, "example.com/web:1", id="on delete"),
    ],
)
def test_a_pod_that_is_made_again_is_as_new_as_its_neighbours(given: dict[str, Any], ordinal: int, image: str) -> None:
    others = both(*(pods(other, old=other < 2) for other in range(3) if other != ordinal))
    [action] = planned(a_set(**given), others, {}).actions
    assert isinstance(action, CreatePod)
    assert action.body["metadata"]["name"] == f"web-{ordinal}"
    assert action.body["spec"]["containers"][0]["image"] == image


JUST_NOW = "2025-12-31T23:59:57Z"


@pytest.mark.parametrize(
    ("existing", "want", "again"),
    [
        pytest.param(pods(0, since=LONG_AGO), ["create web-1"], None, id="ready long enough"),
        pytest.param(pods(0, since=JUST_NOW), [], 7.0, id="ready for a moment"),
        pytest.param(pods(0, ready=False), [], None, id="not ready"),
    ],
)
def test_pods_count_once_they_were_ready_for_a_while(existing: Pods, want: list[str], again: float | None) -> None:
    found = planned(a_set(min_ready=10), existing, {})
    assert ([in_words(action) for action in found.actions], found.again) == (want, again)


SET_OWNER = owned_by({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}}, uid="web-uid")
POD_OWNER = owned_by({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}}, uid="web-1-uid")
STRANGER = owned_by({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}}, uid="stranger-uid")


@pytest.mark.parametrize(
    ("given", "owners", "want"),
    [
        pytest.param({}, [], [], id="retain"),
        pytest.param({"retention": "Delete"}, [], ["own data-web-1 by web"], id="goes with the set"),
        pytest.param({"retention": "Delete"}, [SET_OWNER], [], id="goes with the set already"),
        pytest.param({}, [SET_OWNER], ["own data-web-1 by"], id="shall stay after all"),
        pytest.param({"when_scaled": "Delete"}, [], [], id="goes when scaled away, which it is not"),
        pytest.param({"when_scaled": "Delete"}, [POD_OWNER], ["own data-web-1 by"], id="was to be scaled away"),
        pytest.param({"retention": "Delete"}, [STRANGER], [], id="another owner's"),
        pytest.param(
            {"when_scaled": "Delete", "replicas": 1},
            [],
            ["own data-web-1 by web-1"],
            id="scaled away: the claim is told first",
        ),
        pytest.param(
            {"when_scaled": "Delete", "replicas": 1},
            [POD_OWNER],
            ["delete web-1: scaled down"],
            id="scaled away: then the pod goes",
        ),
        pytest.param(
            {"when_scaled": "Delete", "retention": "Delete", "replicas": 1},
            [SET_OWNER],
            ["own data-web-1 by web-1"],
            id="scaled away: the pod instead of the set",
        ),
    ],
)
def test_claims_go_when_the_set_says_so(given: dict[str, Any], owners: list[Any], want: list[str]) -> None:
    wish = {"replicas": 2} | given
    other = [SET_OWNER] if wish.get("retention") == "Delete" else []
    claims = {
        "data-web-0": a_claim(name="data-web-0", owners=other),
        "data-web-1": a_claim(name="data-web-1", owners=owners),
    }
    found = planned(a_set(claims=["data"], **wish), pods(0, 1), claims)
    assert [in_words(action) for action in found.actions] == want


OLD = {"currentRevision": "web-0000000000", "updateRevision": "web-0000000000"}


@pytest.mark.parametrize(
    ("given", "existing", "counts", "rolled_out"),
    [
        pytest.param({}, pods(), (0, 0, 0, 0), True, id="nothing yet, and no other revision known"),
        pytest.param({}, both(pods(0), pods(1, ready=False)), (2, 1, 2, 2), True, id="on the way up"),
        pytest.param({}, pods(0, phase="Failed", ready=False), (0, 0, 0, 0), True, id="pods that ended do not count"),
        pytest.param({}, both(pods(0, 1), pods(2, deleting=True)), (3, 3, 2, 2), True, id="one goes"),
        pytest.param(
            {"status": OLD}, both(pods(0, 1, old=True), pods(2)), (3, 3, 2, 1), False, id="an update on its way"
        ),
        pytest.param(
            {"status": OLD}, both(pods(0, 1), pods(2, ready=False)), (3, 2, 0, 3), False, id="an update almost done"
        ),
        pytest.param({"status": OLD}, pods(0, 1, 2), (3, 3, 3, 3), True, id="an update done"),
    ],
)
def test_status(given: dict[str, Any], existing: Pods, counts: tuple[int, int, int, int], rolled_out: bool) -> None:
    stateful_set = a_set(**given)
    newest = revision_of(stateful_set)
    before = OLD_REVISION if given.get("status") else newest
    said = stateful_set_status(
        stateful_set, existing(stateful_set), Revisions(before, newest), now=times.from_time(NOW)
    )
    fields = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    assert tuple(said[field] for field in fields) == counts
    assert said["updateRevision"] == newest.name
    assert said["currentRevision"] == (newest.name if rolled_out else OLD["currentRevision"])


def test_status_that_was_written_is_recognised() -> None:
    stateful_set = a_set()
    newest = revision_of(stateful_set)
    made = pods(0, 1, 2)(stateful_set)
    said = stateful_set_status(stateful_set, made, Revisions(newest, newest), now=times.from_time(NOW))
    assert has_status(a_set(status=said).status, said)
    assert not has_status(stateful_set.status, said)
