"""What is left of a namespace, what people are told about it, and when it is looked at again."""

import msgspec
import pytest

from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, POD, STATEFUL_SET
from mooring.api.times import from_time, to_time
from mooring.api.views.core import Namespace
from mooring.api.views.meta import ApiObject, Condition
from mooring.controllers.namespace_progress import (
    CONTENT_FAILURE,
    CONTENT_REMAINING,
    FINALIZERS_REMAINING,
    STUCK_AFTER_SECONDS,
    RemainingObjects,
    changed_conditions,
    conditions,
    finalize_body,
    remaining_objects,
    seconds_until_recheck,
)
from support.builders import Body, a_claim, a_pod

NOW = from_time("2026-01-02T03:04:05Z")
PROTECTION = "kubernetes.io/pvc-protection"


def a_namespace(*, holders: tuple[str, ...] = ("kubernetes",), **metadata: object) -> Namespace:
    body: Body = {"metadata": {"name": "acc", "uid": "1"} | metadata, "spec": {"finalizers": holders}}
    return NAMESPACE.decode(msgspec.json.encode(body))


def a_config(*, finalizers: tuple[str, ...] = (), going: float | None = None) -> ApiObject:
    """`going` is the moment it should be gone by, in seconds from now."""
    metadata: Body = {"name": "c", "finalizers": finalizers}
    if going is not None:
        metadata["deletionTimestamp"] = to_time(NOW + going)
    return CONFIG_MAP.decode(msgspec.json.encode({"metadata": metadata}))


@pytest.mark.parametrize(
    ("items", "finalizers", "stuck"),
    [
        pytest.param([a_config(going=30)], {}, 0, id="its grace runs"),
        pytest.param([a_config(going=-STUCK_AFTER_SECONDS)], {}, 0, id="its grace has just ended"),
        pytest.param([a_config(going=-STUCK_AFTER_SECONDS - 1)], {}, 1, id="its grace is over"),
        pytest.param([a_config()], {}, 1, id="not deleted yet"),
        pytest.param([a_config(finalizers=("a.io/x",), going=-3600)], {"a.io/x": 1}, 0, id="a finalizer has time"),
        pytest.param(
            [a_config(finalizers=("a.io/x", "b.io/y")), a_config(finalizers=("a.io/x",)), a_config()],
            {"a.io/x": 2, "b.io/y": 1},
            1,
            id="several",
        ),
    ],
)
def test_leftovers(items: list[ApiObject], finalizers: dict[str, int], stuck: int) -> None:
    assert remaining_objects(CONFIG_MAP, items, now=NOW) == RemainingObjects(CONFIG_MAP, len(items), finalizers, stuck)


def test_pods_and_claims_are_counted_like_anything_else() -> None:
    claim = a_claim(name="a", finalizers=(PROTECTION,), deleting=True)
    assert remaining_objects(CLAIM, [claim], now=NOW).finalizers == {PROTECTION: 1}
    assert remaining_objects(POD, [a_pod(name="a", deleting=True)], now=NOW).stuck == 0


GOOD = {
    CONTENT_FAILURE: ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT_REMAINING: ("False", "ContentRemoved", "All content successfully removed"),
    FINALIZERS_REMAINING: ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@pytest.mark.parametrize(
    ("left", "refusals", "bad"),
    [
        pytest.param([], [], {}, id="nothing left"),
        pytest.param(
            [RemainingObjects(POD, 3, {}, 0)],
            [],
            {
                CONTENT_REMAINING: (
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: pods. has 3 resource instances",
                )
            },
            id="pods that end",
        ),
        pytest.param(
            [
                RemainingObjects(STATEFUL_SET, 1, {"b.io/y": 1}, 0),
                RemainingObjects(CLAIM, 2, {PROTECTION: 2, "b.io/y": 1}, 0),
            ],
            [],
            {
                CONTENT_REMAINING: (
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: persistentvolumeclaims. has 2 resource instances, "
                    "statefulsets.apps has 1 resource instances",
                ),
                FINALIZERS_REMAINING: (
                    "True",
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: b.io/y in 2 resource instances, "
                    "kubernetes.io/pvc-protection in 2 resource instances",
                ),
            },
            id="finalizers of several kinds",
        ),
        pytest.param(
            [RemainingObjects(STATEFUL_SET, 2, {}, 1)],
            ["the server said no"],
            {
                CONTENT_FAILURE: (
                    "True",
                    "ContentDeletionFailed",
                    "Failed to delete all resource types, 2 remaining: the server said no, unexpected items still "
                    "remain in namespace: acc for gvr: apps/v1, Resource=statefulsets",
                ),
                CONTENT_REMAINING: (
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: statefulsets.apps has 2 resource instances",
                ),
            },
            id="a refusal, and something that should be gone",
        ),
    ],
)
def test_conditions(left: list[RemainingObjects], refusals: list[str], bad: dict[str, tuple[str, str, str]]) -> None:
    told = {one.type: (one.status, one.reason, one.message) for one in conditions("acc", left, refusals)}
    assert told == GOOD | bad


def test_only_what_is_new_is_written_and_dated_by_its_status() -> None:
    long_ago, now = "2026-01-01T00:00:00Z", "2026-01-02T03:04:05Z"
    before = [
        Condition(type="Same", status="False", reason="R", message="m", last_transition_time=long_ago),
        Condition(type="Reworded", status="True", reason="R", message="m", last_transition_time=long_ago),
        Condition(type="Turned", status="False", reason="R", message="m", last_transition_time=long_ago),
        Condition(type="Foreign", status="True"),
    ]
    desired = [
        Condition(type="Same", status="False", reason="R", message="m"),
        Condition(type="Reworded", status="True", reason="R", message="other"),
        Condition(type="Turned", status="True", reason="R", message="m"),
        Condition(type="New", status="False", reason="R", message="m"),
    ]
    assert [(one["type"], one["lastTransitionTime"]) for one in changed_conditions(before, desired, moment=now)] == [
        ("Reworded", long_ago),
        ("Turned", now),
        ("New", now),
    ]
    assert changed_conditions(before, before[:3], moment=now) == []


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        pytest.param(-5.0, 1.0, id="clocks that disagree"),
        pytest.param(0.0, 1.0, id="just begun"),
        pytest.param(40.0, 10.0, id="a while ago"),
        pytest.param(86400.0, 60.0, id="a day ago"),
    ],
)
def test_the_longer_it_takes_the_less_often_it_is_looked_at(age: float, seconds: float) -> None:
    assert seconds_until_recheck(a_namespace(deletionTimestamp=to_time(NOW - age)), now=NOW) == seconds


def test_a_release_takes_our_hold_and_nothing_else() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    namespace = a_namespace(
        holders=("b.io/y", "kubernetes", "a.io/x"),
        resourceVersion="7",
        labels={"team": "x"},
        annotations={"note": "y"},
        finalizers=["foregroundDeletion"],
        ownerReferences=[owner],
        deletionTimestamp="2026-01-02T03:04:05Z",
    )
    body = finalize_body(namespace)
    assert body["spec"] == {"finalizers": ["b.io/y", "a.io/x"]}
    # Read back, it is all there: the server would take what is missing for removed.
    assert NAMESPACE.decode(msgspec.json.encode(body)).metadata == namespace.metadata
