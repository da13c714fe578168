"""Volumes that say where they are by labels: Kubernetes' tables for zones and regions, old keys and new."""

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.scheduler import cluster_events
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.plugins.volume_restrictions import WRONG_ZONE, VolumeZone
from support.builders import a_claim, a_class, a_node, a_pod, a_volume
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, unresolvable

pytestmark = [pytest.mark.level("u")]

Labels = dict[str, str]

POD = a_pod(claims=["claim-1"])
BOUND = a_claim(volume="volume-1", bound=True)
ZONE_A, ZONE_B, REGION = "us-west1-a", "us-west1-b", "us-west1"


@pytest.mark.req("T24.labels")
@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({well_known.ZONE_BETA: ZONE_A}, {}, True, id="the node says nothing"),
        pytest.param({}, {well_known.ZONE: ZONE_A}, True, id="the volume says nothing"),
        pytest.param({well_known.ZONE_BETA: ZONE_A}, {well_known.ZONE_BETA: ZONE_A}, True, id="old zone, equal"),
        pytest.param({well_known.REGION_BETA: REGION}, {well_known.REGION_BETA: REGION}, True, id="old region, equal"),
        pytest.param(
            {well_known.REGION_BETA: REGION}, {well_known.REGION_BETA: "other"}, False, id="old region, another"
        ),
        pytest.param({well_known.ZONE_BETA: ZONE_A}, {well_known.ZONE_BETA: ZONE_B}, False, id="old zone, another"),
        pytest.param({well_known.ZONE: ZONE_A}, {well_known.ZONE: ZONE_A}, True, id="zone, equal"),
        pytest.param({well_known.REGION: REGION}, {well_known.REGION: REGION}, True, id="region, equal"),
        pytest.param({well_known.REGION: REGION}, {well_known.REGION: "other"}, False, id="region, another"),
        pytest.param({well_known.ZONE: ZONE_A}, {well_known.ZONE: ZONE_B}, False, id="zone, another"),
        pytest.param(
            {well_known.ZONE: ZONE_A, well_known.REGION: REGION},
            {well_known.ZONE: ZONE_A},
            False,
            id="zone and region against a zone",
        ),
        pytest.param(
            {well_known.ZONE: ZONE_A, well_known.REGION: REGION},
            {well_known.ZONE: ZONE_A, well_known.REGION: REGION},
            True,
            id="zone and region, both equal",
        ),
        pytest.param(
            {well_known.ZONE: ZONE_A}, {well_known.ZONE_BETA: ZONE_A}, False, id="a new key is not met by an old one"
        ),
        pytest.param(
            {well_known.ZONE_BETA: ZONE_A}, {well_known.ZONE: ZONE_A}, True, id="an old key is met by a new one"
        ),
        pytest.param({well_known.ZONE_BETA: ZONE_A}, {well_known.ZONE: ZONE_B}, False, id="old key, new one differs"),
        pytest.param(
            {well_known.ZONE_BETA: ZONE_A},
            {well_known.ZONE_BETA: ZONE_B, well_known.ZONE: ZONE_A},
            False,
            id="a node's own old key comes before its new one",
        ),
        pytest.param(
            {well_known.ZONE_BETA: "us-west1-c__us-west1-a"}, {}, True, id="several zones, the node says nothing"
        ),
        pytest.param(
            {well_known.ZONE_BETA: "us-west1-c__us-west1-a"},
            {well_known.ZONE_BETA: ZONE_A},
            True,
            id="several old zones, one is it",
        ),
        pytest.param(
            {well_known.ZONE: "us-west1-c__us-west1-a"}, {well_known.ZONE: ZONE_A}, True, id="several zones, one is it"
        ),
        pytest.param(
            {well_known.ZONE: "us-west1-c__us-west1-a"},
            {well_known.ZONE: ZONE_B},
            False,
            id="several zones, none is it",
        ),
        pytest.param(
            {well_known.ZONE: "us-west1-c__"}, {well_known.ZONE: ZONE_B}, True, id="an empty part voids the label"
        ),
        pytest.param({well_known.ZONE: " us-west1-a __x"}, {well_known.ZONE: ZONE_A}, True, id="blanks do not matter"),
    ],
)
def test_labels(volume: Labels, node: Labels, fits: bool) -> None:
    snapshot = a_snapshot(a_node(name="n1", labels=node), BOUND, a_volume(labels=volume))

    assert rejected(VolumeZone(), POD, snapshot) == ({} if fits else {WRONG_ZONE: {"n1"}})
    assert unresolvable(VolumeZone(), POD, snapshot) == (set() if fits else {"n1"})


@pytest.mark.req("T24.unbound")
@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([BOUND, a_volume(labels={well_known.ZONE: ZONE_A})], None, id="bound"),
        pytest.param([], 'persistentvolumeclaim "claim-1" not found', id="no claim"),
        pytest.param([BOUND], 'persistentvolume "volume-1" not found', id="no volume"),
        pytest.param(
            [a_claim(storage_class=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="unbound and without class",
        ),
        pytest.param([a_claim()], 'storageclass.storage.k8s.io "local" not found', id="class does not exist"),
        pytest.param(
            [a_claim(), a_class(binding_mode=None)],
            'VolumeBindingMode not set for StorageClass "local"',
            id="class does not say when to bind",
        ),
        pytest.param(
            [a_claim(), a_class(binding_mode="Immediate")], "PersistentVolume had no name", id="not bound yet"
        ),
        pytest.param([a_claim(), a_class()], None, id="bound late: it has no place yet"),
    ],
)
def test_claims(objects: list[ApiObject], want: str | None) -> None:
    snapshot = a_snapshot(a_node(name="n1", labels={well_known.ZONE: ZONE_A}), *objects)

    assert refused(VolumeZone(), POD, snapshot) == want
    if want is None:
        assert rejected(VolumeZone(), POD, snapshot) == {}


@pytest.mark.req("T24.unbound")
def test_a_claim_without_a_name() -> None:
    assert refused(VolumeZone(), a_pod(claims=[""]), a_snapshot()) == "PersistentVolumeClaim had no name"


@pytest.mark.req("T24.unbound")
@pytest.mark.parametrize("pod", [a_pod(), a_pod(ephemeral=["scratch"])], ids=["no volumes", "an ephemeral volume"])
def test_pods_that_are_none_of_its_business(pod: object) -> None:
    snapshot = a_snapshot(a_node(name="n1", labels={well_known.ZONE: ZONE_A}))

    assert refused(VolumeZone(), pod, snapshot) is None
    assert rejected(VolumeZone(), pod, snapshot) == {}


def zoned(zone: str, **more: object) -> ApiObject:
    return a_volume(labels={well_known.ZONE: zone}, **more)


@pytest.mark.req("T26.volumes", "T24.wakes")
@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(
            a_pod(), cluster_events.claim_event(None, a_claim()), False, id="a claim appears, the pod has none"
        ),
        pytest.param(POD, cluster_events.claim_event(None, a_claim(name="x")), False, id="another claim appears"),
        pytest.param(
            POD, cluster_events.claim_event(None, a_claim(namespace="x")), False, id="one of that name elsewhere"
        ),
        pytest.param(POD, cluster_events.claim_event(None, a_claim()), True, id="its claim appears"),
        pytest.param(POD, cluster_events.claim_event(a_claim(), BOUND), True, id="its claim is bound"),
        pytest.param(
            a_pod(), cluster_events.claim_event(a_claim(), BOUND), False, id="a claim is bound, the pod has none"
        ),
        pytest.param(
            POD,
            cluster_events.class_event(None, a_class(binding_mode=None)),
            False,
            id="a class that does not say when to bind",
        ),
        pytest.param(
            POD, cluster_events.class_event(None, a_class(binding_mode="Immediate")), False, id="an immediate class"
        ),
        pytest.param(POD, cluster_events.class_event(None, a_class()), True, id="a class that binds late"),
        pytest.param(POD, cluster_events.volume_event(None, zoned(ZONE_A)), True, id="a volume appears"),
        pytest.param(POD, cluster_events.volume_event(zoned(ZONE_A), zoned(ZONE_B)), True, id="a volume moves"),
        pytest.param(POD, cluster_events.volume_event(a_volume(), zoned(ZONE_A)), True, id="a volume gets a zone"),
        pytest.param(
            POD, cluster_events.volume_event(None, zoned(ZONE_A, name="x")), False, id="another claim's volume is added"
        ),
        pytest.param(
            POD,
            cluster_events.class_event(None, a_class(name="x")),
            False,
            id="a class that binds late and is another's",
        ),
        pytest.param(
            POD,
            cluster_events.volume_event(zoned(ZONE_A), zoned(ZONE_A, phase="Bound")),
            False,
            id="a volume stays where it is",
        ),
        pytest.param(POD, cluster_events.node_event(None, a_node()), True, id="a node appears"),
        pytest.param(POD, cluster_events.node_event(a_node(), a_node(zone=ZONE_A)), True, id="a node is labelled"),
        pytest.param(
            POD, cluster_events.node_event(a_node(), a_node(unschedulable=True)), False, id="a node is cordoned"
        ),
    ],
)
def test_wakes(pod: object, change: ClusterEvent | None, want: bool) -> None:
    assert requeues(VolumeZone(), pod, change, a_claim(volume="volume-1")) is want
