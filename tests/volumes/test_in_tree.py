"""Disks that Kubernetes once attached itself, as the drivers know them that took over.

Zone labels of volumes, read as node affinity.
"""

from collections.abc import Mapping, Sequence

import pytest

from mooring.api import well_known
from mooring.volumes.in_tree import VolumeIdentity, affinity_on, driver_of, identity_of, migrated_on, zonal_affinity
from mooring.volumes.topology import affinity_of
from support.builders import Body, a_csi_node, a_volume, reachable_from

pytestmark = pytest.mark.level("u")

GCE: Body = {"gcePersistentDisk": {"pdName": "disk"}}
GCE_DRIVER, GCE_PLUGIN, GCE_ZONE = "pd.csi.storage.gke.io", "kubernetes.io/gce-pd", "topology.gke.io/zone"


@pytest.mark.req("T23.counted")
@pytest.mark.parametrize(
    ("source", "labels", "want"),
    [
        pytest.param({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, VolumeIdentity("d", "h"), id="a driver's own"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, VolumeIdentity("ebs.csi.aws.com", "vol-1"), id="ebs"
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
            {},
            VolumeIdentity("ebs.csi.aws.com", "vol-1"),
            id="ebs, the old spelling",
        ),
        pytest.param(
            GCE,
            {well_known.ZONE: "z-1"},
            VolumeIdentity(GCE_DRIVER, "projects/UNSPECIFIED/zones/z-1/disks/disk"),
            id="gce, in a zone",
        ),
        pytest.param(
            GCE,
            {},
            VolumeIdentity(GCE_DRIVER, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
            id="gce, zone unknown",
        ),
        pytest.param(
            GCE,
            {well_known.ZONE_BETA: "us-east1-a__us-east1-b"},
            VolumeIdentity(GCE_DRIVER, "projects/UNSPECIFIED/regions/us-east1/disks/disk"),
            id="gce, in two zones",
        ),
        pytest.param(
            {"azureDisk": {"diskName": "d", "diskURI": "/uri"}},
            {},
            VolumeIdentity("disk.csi.azure.com", "/uri"),
            id="azure",
        ),
        pytest.param({"cinder": {"volumeID": "v"}}, {}, VolumeIdentity("cinder.csi.openstack.org", "v"), id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "v"}}, {}, VolumeIdentity("pxd.portworx.com", "v"), id="portworx"),
        pytest.param({"nfs": {"server": "s", "path": "/"}}, {}, None, id="no driver took over"),
    ],
)
def test_identities(source: Body, labels: dict[str, str], want: VolumeIdentity | None) -> None:
    assert identity_of(a_volume(source=source, labels=labels)) == want


@pytest.mark.parametrize(
    ("provisioner", "want"),
    [
        ("csi.example.com", "csi.example.com"),
        (GCE_PLUGIN, GCE_DRIVER),
        ("kubernetes.io/no-provisioner", ""),
        ("", ""),
    ],
)
def test_drivers_behind_provisioners(provisioner: str, want: str) -> None:
    assert driver_of(provisioner) == want


@pytest.mark.parametrize(
    ("listed", "want"), [(None, set()), ("", set()), ("a", {"a"}), ("a,b", {"a", "b"}), ("a, b", {"a", " b"})]
)
def test_plugins_a_node_leaves_to_drivers(listed: str | None, want: set[str]) -> None:
    assert migrated_on(a_csi_node(migrated=listed)) == want
    assert migrated_on(None) == set()


MIGRATED = a_csi_node(migrated=GCE_PLUGIN)


@pytest.mark.parametrize(
    ("volume", "reached"),
    [
        pytest.param({"labels": {well_known.ZONE_BETA: "a"}}, {"a"}, id="a zone label"),
        pytest.param({"labels": {well_known.ZONE: "a__b"}}, {"a", "b"}, id="two zones"),
        pytest.param({"affinity": reachable_from(well_known.ZONE, "b")}, {"b"}, id="an affinity by zone"),
        pytest.param(
            {"affinity": reachable_from(well_known.ZONE, "b"), "labels": {well_known.ZONE: "a"}},
            {"b"},
            id="affinity before label",
        ),
        pytest.param({}, {"a", "b"}, id="nothing said"),
        pytest.param({"affinity": reachable_from("rack", "1")}, set(), id="an affinity by something else"),
    ],
)
def test_where_a_disk_is_in_the_words_of_its_driver(volume: Body, reached: set[str]) -> None:
    disk = a_volume(source=GCE, **volume)
    zones = {zone: {GCE_ZONE: zone} for zone in "ab"}

    required = affinity_on(disk, MIGRATED)

    assert {z for z, own in zones.items() if required is None or required.matches(own, fields=None)} == reached
    assert affinity_on(disk, a_csi_node()) == affinity_of(disk)
    assert affinity_on(disk, None) == affinity_of(disk)


def test_a_disk_of_a_driver_that_knows_no_zones_is_where_it_says_itself() -> None:
    disk = a_volume(source={"portworxVolume": {"volumeID": "v"}}, labels={well_known.ZONE: "a"})

    assert affinity_on(disk, a_csi_node(migrated="kubernetes.io/portworx-volume")) is None


OLD = {well_known.ZONE_BETA, well_known.REGION_BETA}
NEW = {well_known.ZONE, well_known.REGION}


@pytest.mark.parametrize(
    ("labels", "node_keys", "expected"),
    [
        pytest.param(
            {well_known.ZONE_BETA: "us-central1-a", well_known.REGION_BETA: "us-central1"},
            OLD,
            [(well_known.ZONE_BETA, ["us-central1-a"]), (well_known.REGION_BETA, ["us-central1"])],
            id="zonal volume of the topology design",
        ),
        pytest.param(
            {well_known.ZONE_BETA: "us-central1-a__us-central1-b", well_known.REGION_BETA: "us-central1"},
            OLD,
            [(well_known.ZONE_BETA, ["us-central1-a", "us-central1-b"]), (well_known.REGION_BETA, ["us-central1"])],
            id="multi-zonal volume of the topology design",
        ),
        pytest.param({well_known.ZONE: "a"}, NEW, [(well_known.ZONE, ["a"])], id="today's label"),
        pytest.param({well_known.ZONE_BETA: "a"}, NEW, [(well_known.ZONE, ["a"])], id="only today's label on nodes"),
        pytest.param(
            {well_known.ZONE_BETA: "a"}, OLD | NEW, [(well_known.ZONE_BETA, ["a"])], id="both on nodes: as labelled"
        ),
        pytest.param({well_known.ZONE_BETA: "a"}, set(), [(well_known.ZONE_BETA, ["a"])], id="no nodes: as labelled"),
        pytest.param({well_known.ZONE: "a"}, OLD, [(well_known.ZONE, ["a"])], id="never back to the old label"),
        pytest.param(
            {well_known.ZONE_BETA: "a", well_known.ZONE: "a"},
            OLD | NEW,
            [(well_known.ZONE, ["a"])],
            id="both: today's alone",
        ),
        pytest.param({well_known.REGION: "r"}, NEW, [(well_known.REGION, ["r"])], id="a region alone"),
        pytest.param({well_known.ZONE: "b__a__b"}, NEW, [(well_known.ZONE, ["a", "b"])], id="a zone twice"),
        pytest.param({well_known.ZONE: ""}, NEW, None, id="an empty label"),
        pytest.param({well_known.ZONE: "a__"}, NEW, None, id="a label with an empty part"),
        pytest.param({"disk": "ssd"}, NEW, None, id="other labels"),
    ],
)
@pytest.mark.req("T36.joined-zones")
def test_affinity(
    labels: Mapping[str, str], node_keys: set[str], expected: Sequence[tuple[str, Sequence[str]]] | None
) -> None:
    affinity = zonal_affinity(labels, node_keys)
    if expected is None:
        assert affinity is None
        return
    assert affinity is not None
    [term] = affinity["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": values} for key, values in expected]
