"""The plan of a recovery: every write, what is lost, and whether the pods fit afterwards."""

from collections.abc import Collection

import pytest

from mooring.api import well_known
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.recovery import RecoveryPlan, recovery_plan
from mooring.volumes.holds.objects import STORAGE_LOST
from support.builders import Body, claim_body, claim_ref, class_body, node_body, pod_body, volume_body

CLASS = class_body(annotations={well_known.LOST_STORAGE: "confirmed"})
FREE = volume_body(name="free", node="n1")
NODE = node_body(name="n1")
POD = pod_body(name="db-0", claims=["data"])


def pair(name: str = "data", *, reclaim: str = "Retain", finalizers: Collection[str] = ()) -> tuple[Body, Body]:
    volume = volume_body(
        name=f"disk-{name}",
        node="n9",
        claim_ref=claim_ref(name=name, uid=f"{name}-uid"),
        phase="Bound",
        reclaim=reclaim,
        finalizers=tuple(finalizers),
    )
    notes = {well_known.BOUND_BY_CONTROLLER: "yes"}
    claim = claim_body(
        name=name, uid=f"{name}-uid", volume=f"disk-{name}", bound=True, phase="Bound", annotations=notes
    )
    return volume, claim


def planned(*bodies: Body, confirmed: Collection[str] = ("n9",)) -> RecoveryPlan:
    objects = ClusterObjects()
    for body in bodies:
        objects.add(body)
    return recovery_plan(objects, confirmed)


@pytest.mark.req("R9.given-up")
def test_plan_has_every_write_and_the_loss() -> None:
    plan = planned(CLASS, NODE, FREE, *pair(), POD)
    assert plan.verdict == "1 claim would be replaced, and the data lost."
    [item] = plan.items
    assert (item.claim, item.volume, item.node) == ("default/data", "disk-data", "n9")
    assert item.steps == (
        "delete PersistentVolumeClaim default/data",
        "keep PersistentVolume disk-data (reclaim policy Retain)",
        "create PersistentVolumeClaim default/data without a volume",
    )
    assert item.loses.startswith("the binding of default/data to disk-data (10Gi)")
    assert [(trial.pod, trial.fits) for trial in item.pods] == [("default/db-0", True)]


def test_deleted_volume_and_pods_of_the_node_are_steps() -> None:
    there = pod_body(name="db-0", claims=["data"], node="n9", phase="Running")
    plan = planned(CLASS, NODE, FREE, *pair(reclaim="Delete", finalizers=[well_known.EXTERNAL_PROVISIONER]), there)
    [item] = plan.items
    assert item.steps[1:3] == (
        "delete Pod default/db-0, which was on n9",
        f"delete PersistentVolume disk-data, and remove its finalizer {well_known.EXTERNAL_PROVISIONER}",
    )
    assert item.loses.startswith("all data on disk-data (10Gi)")
    assert [trial.fits for trial in item.pods] == [True]


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        pytest.param((CLASS, NODE, *pair(), POD), "WouldNotFit", id="no other volume is free"),
        pytest.param(
            (CLASS, NODE, FREE, *pair(), pod_body(name="db-0", claims=["data"], requests={"cpu": "99"})),
            "WouldNotFit",
            id="no node has the resources",
        ),
        pytest.param((class_body(), NODE, FREE, *pair(), POD), "ClassNotOptedIn", id="the class has not opted in"),
        pytest.param(
            (CLASS, NODE, FREE, *pair(), POD, node_body(name="n9", ready=False)), "NodeExists", id="the Node exists"
        ),
    ],
)
@pytest.mark.req("R9.given-up")
def test_refusal_has_a_code(bodies: tuple[Body, ...], code: str) -> None:
    # A node that is NotReady counts as lost after the grace period.
    objects = ClusterObjects(now=4e9)
    for body in bodies:
        objects.add(body)
    for node in [each for each in bodies if each["kind"] == "Node" and each["metadata"]["name"] == "n9"]:
        for condition in node["status"]["conditions"]:
            condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
        objects.add(node)
    plan = recovery_plan(objects, ("n9",))
    assert not plan.items
    assert [each.code for each in plan.refused] == [code]
    assert plan.verdict == "No claim would be replaced; 1 unreachable volume would be left alone."


def test_pod_with_another_lost_volume_that_stays_does_not_fit() -> None:
    other, claim = pair("other")
    claim["spec"]["storageClassName"] = "kept"
    other["spec"]["storageClassName"] = "kept"
    both = pod_body(name="db-0", claims=["data", "other"])
    plan = planned(CLASS, class_body(name="kept"), NODE, FREE, *pair(), other, claim, both)
    assert not plan.items
    assert [each.code for each in plan.refused] == ["WouldNotFit", "ClassNotOptedIn"]


def test_confirmation_may_be_on_the_volume() -> None:
    volume, claim = pair()
    assert [each.code for each in planned(CLASS, NODE, FREE, volume, claim, confirmed=()).refused] == ["Unconfirmed"]
    volume["metadata"]["annotations"] = {STORAGE_LOST: "yes"}
    assert len(planned(CLASS, NODE, FREE, volume, claim, confirmed=()).items) == 1


def test_reachable_and_unclaimed_volumes_are_not_mentioned() -> None:
    plan = planned(CLASS, NODE, FREE, volume_body(name="unclaimed", node="n9"))
    assert (plan.items, plan.refused) == ((), ())
    assert plan.verdict == "No claim has lost its storage with its node."
