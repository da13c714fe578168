"""Zones of pods and of their volumes and classes, compared."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, EVENT, NODE, POD, STORAGE_CLASS
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.component import Scheduler
from mooring.scheduler.zone_coverage import NO_COMMON_ZONE, zone_coverage
from mooring.volumes.binding import PodClaims
from support.builders import (
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_volume,
    claim_body,
    claim_ref,
    class_body,
    node_body,
    pod_body,
    reachable_from,
)
from support.partial_control_plane import Plane, run_plane
from support.scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T50.told")

MAKER = "disks.example.com"
NODES = [a_node(name=f"in-{zone}", zone=zone) for zone in "abc"]
TAINTED = a_node(name="in-d", zone="d", taints=[{"key": "kept", "effect": "NoSchedule"}])
CLAIM_1 = a_claim(storage_class="made")


def class_in(*zones: str, key: str = well_known.ZONE) -> ApiObject:
    return a_class(name="made", provisioner=MAKER, allowed_topologies=[{key: zones}] if zones else ())


def pod_in(*zones: str) -> Pod:
    terms = [{"matchExpressions": [{"key": well_known.ZONE, "operator": "In", "values": list(zones)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return a_pod(claims=["claim-1"], affinity={"nodeAffinity": required} if zones else None)


def messages(pod: Pod, *objects: ApiObject) -> list[str]:
    snapshot = a_snapshot(*NODES, TAINTED, *objects)
    claims = snapshot.volumes.claims_of(pod)
    assert isinstance(claims, PodClaims)
    return [str(one) for one in zone_coverage(pod, claims, snapshot)]


@pytest.mark.parametrize(
    ("pod", "storage_class", "want"),
    [
        pytest.param(
            pod_in("c"),
            class_in("a", "b"),
            "claim default/claim-1: class made allows zones a, b, but the pod can only run in zone c: they have no "
            "common zone",
            id="no overlap",
        ),
        pytest.param(
            pod_in("a", "c"),
            class_in("a", "b"),
            "claim default/claim-1: class made allows zones a, b, and the pod cannot run in zone b: when zone a fails, "
            "it cannot be scheduled to another zone of its volume",
            id="the design's example",
        ),
        pytest.param(
            pod_in(),
            class_in("a", "b"),
            "claim default/claim-1: class made allows zones a, b, and the pod could run in every one of them",
            id="unrestricted pod",
        ),
        pytest.param(
            pod_in(),
            class_in("a", "d"),
            "claim default/claim-1: class made allows zones a, d, and the pod cannot run in zone d: when zone a fails, "
            "it cannot be scheduled to another zone of its volume",
            id="a zone whose taint the pod does not tolerate",
        ),
        pytest.param(
            pod_in("a"),
            class_in("elsewhere"),
            "claim default/claim-1: class made allows zone elsewhere, but the pod can only run in zone a: they have no "
            "common zone",
            id="a zone without nodes",
        ),
    ],
)
def test_zones_of_the_class_of_a_claim(pod: Pod, storage_class: ApiObject, want: str) -> None:
    assert messages(pod, storage_class, CLAIM_1) == [want]


def test_unrestricted_class_is_not_mentioned() -> None:
    assert messages(pod_in("a"), class_in(), CLAIM_1) == []


def test_zones_of_a_bound_volume() -> None:
    source = {"csi": {"driver": "d", "volumeHandle": "v"}}
    reference = claim_ref(uid="u")
    volume = a_volume(
        storage_class="made", source=source, claim_ref=reference, affinity=reachable_from(well_known.ZONE, "a", "b")
    )
    bound = a_claim(storage_class="made", uid="u", volume="volume-1", bound=True)
    assert messages(pod_in("b", "c"), class_in(), volume, bound) == [
        "claim default/claim-1: its volume is in zones a, b, and the pod cannot run in zone a: when zone b fails, it "
        "cannot be scheduled to another zone of its volume"
    ]


def test_scheduler_warns_a_pod_without_a_common_zone() -> None:
    async def scenario(plane: Plane) -> None:
        for zone in "ab":
            await plane.create(NODE, node_body(name=f"in-{zone}", zone=zone))
        zones = [{well_known.ZONE: "a"}]
        await plane.create(STORAGE_CLASS, class_body(name="made", provisioner=MAKER, allowed_topologies=zones))
        await plane.create(CLAIM, claim_body(storage_class="made"))
        for name, zone in (("apart", "b"), ("together", "a")):
            selector, requests = {well_known.ZONE: zone}, {"cpu": "100"}
            await plane.create(POD, pod_body(name=name, claims=["claim-1"], node_selector=selector, requests=requests))

        async def refused() -> bool:
            reasons = [event.involved_object.name for event in (await plane.client.list(EVENT)).items]
            return {"apart", "together"} <= set(reasons)

        await plane.until(refused)
        await plane.pass_time(5.0)
        assert any(text.startswith(f"{NO_COMMON_ZONE}: ") for text in await plane.events_about("apart"))
        assert not any(text.startswith(NO_COMMON_ZONE) for text in await plane.events_about("together"))

    run_plane([Scheduler], scenario)
