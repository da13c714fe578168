"""What a Deployment does next, row by row: it, its sets, and the steps in order."""

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.api.views.workloads import ReplicaSet
from mooring.controllers.workloads.deployment import (
    REVISION,
    Action,
    AnnotateDeployment,
    AnnotateSet,
    CreateSet,
    DeleteSet,
    ScaleSet,
    plan_deployment,
    replica_set_body,
    sorted_sets,
)
from mooring.controllers.workloads.deployment_status import status
from support.builders.deployments import a_deployment, a_replica_set

NEW = "example.com/web:2"


def in_words(action: Action) -> str:
    match action:
        case CreateSet(body):
            return f"create with {body['spec']['replicas']}"
        case ScaleSet(one, replicas):
            return f"{one.name} to {replicas}"
        case AnnotateSet(one, annotations):
            return f"note {one.name}: {','.join(sorted(annotations))}"
        case AnnotateDeployment(number):
            return f"revision {number}"
        case DeleteSet(one):
            return f"delete {one.name}"


def old(replicas: int, available: int | None = None, *, name: str = "web-1", **how: Any) -> ReplicaSet:  # noqa: ANN401
    seen = replicas if available is None else available
    return a_replica_set(name=name, replicas=replicas, available=seen, desired=how.pop("desired", 10), **how)


def new(replicas: int, available: int | None = None, *, revision: int = 2, **how: Any) -> ReplicaSet:  # noqa: ANN401
    return old(replicas, available, name="web-2", image=NEW, revision=revision, **how)


def steps(sets: Sequence[ReplicaSet], *, pods_run: bool = False, **given: Any) -> list[str]:  # noqa: ANN401
    noted = {REVISION: "2"}
    wish = {"replicas": 10, "image": NEW, "surge": 2, "unavailable": 2, "annotations": noted} | given
    found = a_deployment(**wish)
    return [in_words(action) for action in plan_deployment(found, sorted_sets(found, sets), old_pods_run=pods_run)]


@pytest.mark.parametrize(
    ("sets", "want"),
    [
        pytest.param([], ["create with 10"], id="nothing yet"),
        pytest.param([old(10)], ["create with 2"], id="beside the old one, by the surge"),
        pytest.param([old(10), new(2)], ["web-1 to 6"], id="the old one shrinks to what must be available"),
        pytest.param([old(10), new(2, 0)], ["web-1 to 8"], id="and no further while the new ones start"),
        pytest.param([old(6), new(6, 2)], [], id="waits while too few are available"),
        pytest.param([old(8), new(2)], ["web-2 to 4"], id="the new one grows first"),
        pytest.param([old(10, 4), new(2, 0)], ["web-1 to 8"], id="those that do not work go first"),
        pytest.param([old(0), new(10)], [], id="done"),
        pytest.param([old(0), new(12, desired=10)], ["web-2 to 10"], id="too many"),
    ],
)
def test_rolling_update(sets: list[ReplicaSet], want: list[str]) -> None:
    assert steps(sets) == want


@pytest.mark.parametrize(
    ("sets", "pods_run", "want"),
    [
        pytest.param([old(10)], True, ["web-1 to 0"], id="the old ones go first"),
        pytest.param([old(0)], True, [], id="waits until they are gone"),
        pytest.param([old(0)], False, ["create with 10"], id="then the new ones come"),
    ],
)
def test_recreate(sets: list[ReplicaSet], pods_run: bool, want: list[str]) -> None:
    assert steps(sets, strategy="Recreate", pods_run=pods_run) == want


@pytest.mark.parametrize(
    ("sets", "given", "want"),
    [
        pytest.param([new(10)], {"replicas": 3}, ["web-2 to 3"], id="alone: down"),
        pytest.param([new(3, desired=3)], {"replicas": 10}, ["web-2 to 10"], id="alone: up"),
        pytest.param(
            [old(10, maximum=15, desired=10), new(5, 0, maximum=15)],
            {"replicas": 20, "surge": 10, "unavailable": 0},
            ["web-1 to 20", "web-2 to 10"],
            id="in the middle of a rollout: by their shares",
        ),
        pytest.param([old(3), new(3)], {"replicas": 0}, ["web-1 to 0", "web-2 to 0"], id="to nothing"),
        pytest.param([new(3, desired=3)], {"replicas": 10, "paused": True}, ["web-2 to 10"], id="also when paused"),
    ],
)
def test_scaling(sets: list[ReplicaSet], given: dict[str, Any], want: list[str]) -> None:
    assert steps(sets, **given) == want


def test_a_paused_deployment_makes_nothing_new() -> None:
    assert steps([old(10)], paused=True) == []


def test_revision_history_limit_bounds_old_sets() -> None:
    sets = [old(0, name=f"web-old-{number}", image=f"web:{number}", revision=number) for number in range(1, 5)]
    assert steps([*sets, new(10, revision=9)], history=2, annotations={REVISION: "9"}) == [
        "delete web-old-1",
        "delete web-old-2",
    ]


def test_an_old_template_that_comes_back_is_numbered_anew() -> None:
    back = old(0, name="web-1", revision=1)
    assert steps([back, new(10)], image="example.com/web:1") == [
        "note web-1: deployment.kubernetes.io/revision,deployment.kubernetes.io/revision-history",
        "revision 3",
    ]


def test_new_set_is_identified_by_its_hash() -> None:
    body = replica_set_body(a_deployment(), replicas=3, revision=1)
    word = body["metadata"]["labels"]["pod-template-hash"]
    assert body["metadata"]["name"] == f"web-{word}"
    assert body["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": word}
    assert body["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": word}
    other = replica_set_body(a_deployment(status={"collisionCount": 1}), replicas=3, revision=1)
    assert other["metadata"]["name"] != body["metadata"]["name"]


NOW = 1767225600.0


def conditions_of(found: Any, sets: list[ReplicaSet], *, after: float = 0.0) -> dict[str, tuple[str, str]]:  # noqa: ANN401
    told = status(found, sorted_sets(found, sets), now=NOW + after)
    return {row["type"]: (row["status"], row["reason"]) for row in told["conditions"]}


def test_conditions_of_a_rollout() -> None:
    found = a_deployment(image=NEW)
    assert conditions_of(found, [old(3), new(1, 0)]) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    assert conditions_of(found, [old(2), new(2, 0)])["Available"] == ("False", "MinimumReplicasUnavailable")
    assert conditions_of(found, [old(0), new(3)])["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert conditions_of(a_deployment(paused=True), [])["Progressing"] == ("Unknown", "DeploymentPaused")


def test_a_rollout_that_gets_nowhere_times_out() -> None:
    sets = [old(3), new(1, 0)]
    found = a_deployment(image=NEW)
    before = status(found, sorted_sets(found, sets), now=NOW)
    stuck = a_deployment(image=NEW, status=before | {"observedGeneration": 0})
    assert conditions_of(stuck, sets, after=599.0)["Progressing"] == ("True", "ReplicaSetUpdated")
    assert conditions_of(stuck, sets, after=601.0)["Progressing"] == ("False", "ProgressDeadlineExceeded")
