"""Disks that Kubernetes once attached itself, as the drivers know them that took over."""

import pytest

from builders import Body, a_csi_node, a_volume, reachable_from
from mooring.api import keys
from mooring.volumes.affinity import affinity
from mooring.volumes.in_tree import Identity, affinity_on, driver_of, identity_of, migrated_on

pytestmark = pytest.mark.level("u")

GCE: Body = {"gcePersistentDisk": {"pdName": "disk"}}
GCE_DRIVER, GCE_PLUGIN, GCE_ZONE = "pd.csi.storage.gke.io", "kubernetes.io/gce-pd", "topology.gke.io/zone"


@pytest.mark.req("T23")
@pytest.mark.parametrize(
    ("source", "labels", "want"),
    [
        pytest.param({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, Identity("d", "h"), id="a driver's own"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, Identity("ebs.csi.aws.com", "vol-1"), id="ebs"
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
            {},
            Identity("ebs.csi.aws.com", "vol-1"),
            id="ebs, the old spelling",
        ),
        pytest.param(
            GCE,
            {keys.ZONE: "z-1"},
            Identity(GCE_DRIVER, "projects/UNSPECIFIED/zones/z-1/disks/disk"),
            id="gce, in a zone",
        ),
        pytest.param(
            GCE, {}, Identity(GCE_DRIVER, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"), id="gce, zone unknown"
        ),
        pytest.param(
            GCE,
            {keys.ZONE_BETA: "us-east1-a__us-east1-b"},
            Identity(GCE_DRIVER, "projects/UNSPECIFIED/regions/us-east1/disks/disk"),
            id="gce, in two zones",
        ),
        pytest.param(
            {"azureDisk": {"diskName": "d", "diskURI": "/uri"}}, {}, Identity("disk.csi.azure.com", "/uri"), id="azure"
        ),
        pytest.param({"cinder": {"volumeID": "v"}}, {}, Identity("cinder.csi.openstack.org", "v"), id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "v"}}, {}, Identity("pxd.portworx.com", "v"), id="portworx"),
        pytest.param({"nfs": {"server": "s", "path": "/"}}, {}, None, id="no driver took over"),
    ],
)
def test_identities(source: Body, labels: dict[str, str], want: Identity | None) -> None:
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
        pytest.param({"labels": {keys.ZONE_BETA: "a"}}, {"a"}, id="a zone label"),
        pytest.param({"labels": {keys.ZONE: "a__b"}}, {"a", "b"}, id="two zones"),
        pytest.param({"affinity": reachable_from(keys.ZONE, "b")}, {"b"}, id="an affinity by zone"),
        pytest.param(
            {"affinity": reachable_from(keys.ZONE, "b"), "labels": {keys.ZONE: "a"}}, {"b"}, id="affinity before label"
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
    assert affinity_on(disk, a_csi_node()) == affinity(disk)
    assert affinity_on(disk, None) == affinity(disk)


def test_a_disk_of_a_driver_that_knows_no_zones_is_where_it_says_itself() -> None:
    disk = a_volume(source={"portworxVolume": {"volumeID": "v"}}, labels={keys.ZONE: "a"})

    assert affinity_on(disk, a_csi_node(migrated="kubernetes.io/portworx-volume")) is None
