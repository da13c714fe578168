"""What a StatefulSet does next, row by row: the set, its pods, and the actions in order."""

from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.workloads.stateful_identity import revision
from mooring.workloads.statefulset import (
    Action,
    CreatePod,
    DeletePod,
    ReplacePod,
    RestoreClaims,
    next_actions,
    reported,
    status,
    unsupported,
)
from workloads.stateful_sets import a_set, its_pod

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
        case ReplacePod(pod):
            return f"replace {pod.name}"
        case DeletePod(pod, why):
            return f"delete {pod.name}: {why}"


@pytest.mark.parametrize(
    ("given", "existing", "wanted"),
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
            id="parallel: waits for nobody",
        ),
        pytest.param({"replicas": 0}, pods(), [], id="none wanted"),
        pytest.param({"deleting": True}, pods(), [], id="a set being deleted makes nothing"),
        pytest.param({"deleting": True, "replicas": 0}, pods(0), [], id="a set being deleted removes nothing"),
    ],
)
@pytest.mark.req("T43.statefulset")
def test_pods_are_made(given: dict[str, Any], existing: Pods, wanted: list[str]) -> None:
    assert acting(a_set(**given), existing) == wanted


@pytest.mark.parametrize(
    ("given", "existing", "wanted"),
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
def test_pods_are_removed(given: dict[str, Any], existing: Pods, wanted: list[str]) -> None:
    assert acting(a_set(**given), existing) == wanted


@pytest.mark.parametrize(
    ("given", "existing", "wanted"),
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
def test_pods_that_ended_are_replaced(given: dict[str, Any], existing: Pods, wanted: list[str]) -> None:
    assert acting(a_set(**given), existing) == wanted


@pytest.mark.parametrize(
    ("given", "existing", "wanted"),
    [
        pytest.param({}, pods(0, 1, 2, old=True), ["delete web-2: the template changed"], id="the highest first"),
        pytest.param(
            {}, both(pods(0, 1, old=True), pods(2)), ["delete web-1: the template changed"], id="then the next"
        ),
        pytest.param({}, both(pods(0, 1, old=True), pods(2, ready=False)), [], id="not before that one is ready"),
        pytest.param({}, both(pods(0, 1), pods(2, old=True, deleting=True)), [], id="not while that one goes"),
        pytest.param({"update": "OnDelete"}, pods(0, 1, 2, old=True), [], id="not at all when users delete pods"),
        pytest.param({"partition": 1}, pods(0, 1, 2, old=True), [], id="not with a partition, which is reported"),
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
def test_pods_are_updated(given: dict[str, Any], existing: Pods, wanted: list[str]) -> None:
    assert acting(a_set(**given), existing) == wanted


@pytest.mark.parametrize(
    ("existing", "there", "wanted"),
    [
        pytest.param(pods(), [], ["create web-0 with data-web-0 with log-web-0"], id="claims come with the pod"),
        pytest.param(pods(), ["data-web-0"], ["create web-0 with log-web-0"], id="only those that are missing"),
        pytest.param(
            pods(0, ready=False), ["data-web-0"], ["restore web-0 with log-web-0"], id="a claim that went away"
        ),
    ],
)
@pytest.mark.req("T43.statefulset")
def test_claims_are_made(existing: Pods, there: list[str], wanted: list[str]) -> None:
    assert acting(a_set(claims=["data", "log"]), existing, claims=there) == wanted


def acting(stateful_set: StatefulSet, existing: Pods, *, claims: list[str] | None = None) -> list[str]:
    made = existing(stateful_set)
    actions = next_actions(stateful_set, made, has_claim=lambda name: name in (claims or []))
    return [in_words(action) for action in actions]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        pytest.param({"retention": "Delete"}, "persistentVolumeClaimRetentionPolicy", id="claims to be deleted"),
        pytest.param({"partition": 2}, "partition", id="a partition"),
        pytest.param({"min_ready": 5}, "minReadySeconds", id="seconds to be ready"),
    ],
)
def test_wishes_that_are_not_granted_are_named(given: dict[str, Any], word: str) -> None:
    [problem] = unsupported(a_set(**given))
    assert word in problem
    assert unsupported(a_set()) == []


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
    said = status(stateful_set, existing(stateful_set))
    fields = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    assert tuple(said[field] for field in fields) == counts
    assert said["updateRevision"] == revision(stateful_set)
    assert said["currentRevision"] == (revision(stateful_set) if rolled_out else OLD["currentRevision"])


def test_status_that_was_written_is_recognised() -> None:
    stateful_set = a_set()
    said = status(stateful_set, pods(0, 1, 2)(stateful_set))
    assert reported(a_set(status=said)) == said
    assert reported(stateful_set) != said
