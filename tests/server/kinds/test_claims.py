"""Tables of volumes, claims, classes and CSINodes."""

from typing import Any

import pytest

from mooring.api import kinds, well_known
from mooring.server.kinds.registry import rules_of
from support.server.table_rows import row

Body = dict[str, Any]

VOLUME: Body = {
    "metadata": {"name": "pv-1"},
    "spec": {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "local",
        "volumeMode": "Filesystem",
        "claimRef": {"namespace": "default", "name": "data-web-0"},
    },
    "status": {"phase": "Bound"},
}
CLAIM: Body = {
    "metadata": {"name": "data-web-0"},
    "spec": {"volumeName": "pv-1", "storageClassName": "local", "volumeMode": "Filesystem"},
    "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"]},
}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def changed(body: Body, **parts: Body) -> Body:
    return body | {part: body.get(part, {}) | fields for part, fields in parts.items()}


def test_a_bound_volume() -> None:
    assert row(kinds.VOLUME, VOLUME) == {
        "Name": "pv-1",
        "Capacity": "10Gi",
        "Access Modes": "RWO",
        "Reclaim Policy": "Retain",
        "Status": "Bound",
        "Claim": "default/data-web-0",
        "StorageClass": "local",
        "VolumeAttributesClass": "<unset>",
        "Reason": "",
        "Age": "5m",
        "VolumeMode": "Filesystem",
    }


@pytest.mark.parametrize(
    ("volume", "column", "want"),
    [
        pytest.param(changed(VOLUME, spec={"claimRef": None}), "Claim", "", id="free"),
        pytest.param(changed(VOLUME, metadata=DELETED), "Status", "Terminating", id="being deleted"),
        pytest.param(changed(VOLUME, status={"reason": "no pool"}), "Reason", "no pool", id="with a reason"),
        pytest.param(changed(VOLUME, spec={"volumeMode": None}), "VolumeMode", "<unset>", id="no mode"),
        pytest.param(
            changed(VOLUME, spec={"volumeAttributesClassName": "fast"}),
            "VolumeAttributesClass",
            "fast",
            id="attributes",
        ),
        pytest.param(changed(VOLUME, spec={"capacity": {"storage": 1024}}), "Capacity", "1024", id="size as a number"),
        pytest.param(
            changed(VOLUME, metadata={"annotations": {well_known.STORAGE_CLASS_BETA: "old"}}),
            "StorageClass",
            "old",
            id="the old annotation wins",
        ),
        pytest.param(
            changed(VOLUME, metadata={"annotations": {well_known.STORAGE_CLASS_BETA: ""}}),
            "StorageClass",
            "",
            id="also when it is empty",
        ),
    ],
)
def test_volume_cells(volume: Body, column: str, want: str) -> None:
    assert row(kinds.VOLUME, volume)[column] == want


@pytest.mark.parametrize(
    ("modes", "want"),
    [
        ([], ""),
        (["ReadOnlyMany"], "ROX"),
        (["ReadWriteMany"], "RWX"),
        (["ReadWriteOncePod"], "RWOP"),
        (["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"], "RWO,ROX,RWX"),
    ],
)
def test_access_modes(modes: list[str], want: str) -> None:
    assert row(kinds.VOLUME, changed(VOLUME, spec={"accessModes": modes}))["Access Modes"] == want


def test_a_bound_claim() -> None:
    assert row(kinds.CLAIM, CLAIM) == {
        "Name": "data-web-0",
        "Status": "Bound",
        "Volume": "pv-1",
        "Capacity": "10Gi",
        "Access Modes": "RWO",
        "StorageClass": "local",
        "VolumeAttributesClass": "<unset>",
        "Age": "5m",
        "VolumeMode": "Filesystem",
    }


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            changed(CLAIM, spec={"volumeName": ""}, status={"phase": "Pending"}),
            ("Pending", "", "", ""),
            id="no volume",
        ),
        pytest.param(changed(CLAIM, metadata=DELETED), ("Terminating", "pv-1", "10Gi", "RWO"), id="being deleted"),
        pytest.param(
            changed(CLAIM, status={"phase": "Pending", "capacity": None, "accessModes": None}),
            ("Pending", "pv-1", "0", ""),
            id="volume named, not bound",
        ),
        pytest.param(changed(CLAIM, status={"phase": "Lost"}), ("Lost", "pv-1", "10Gi", "RWO"), id="lost"),
    ],
)
def test_claim_cells(claim: Body, want: tuple[str, ...]) -> None:
    cells = row(kinds.CLAIM, claim)
    assert tuple(cells[column] for column in ("Status", "Volume", "Capacity", "Access Modes")) == want


@pytest.mark.parametrize(
    ("storage_class", "want"),
    [
        pytest.param(
            {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
            ("c", "kubernetes.io/no-provisioner", "Delete", "WaitForFirstConsumer", False),
            id="for local volumes",
        ),
        pytest.param(
            {"provisioner": "x", "reclaimPolicy": "Retain", "allowVolumeExpansion": True},
            ("c", "x", "Retain", "Immediate", True),
            id="everything the other way",
        ),
    ],
)
def test_storage_classes(storage_class: Body, want: tuple[object, ...]) -> None:
    cells = row(kinds.STORAGE_CLASS, {"metadata": {"name": "c"}} | storage_class)
    assert tuple(cells.values()) == (*want, "5m")


def storage_class(name: str, *, day: int = 1, **annotations: str) -> Body:
    return {"metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z", "annotations": annotations}}


IS_DEFAULT = {well_known.DEFAULT_CLASS: "true"}


@pytest.mark.parametrize(
    ("classes", "want"),
    [
        pytest.param([storage_class("c", **IS_DEFAULT)], ["c (default)"], id="one"),
        pytest.param([storage_class("c", **{well_known.DEFAULT_CLASS_BETA: "true"})], ["c (default)"], id="beta"),
        pytest.param([storage_class("c", **{well_known.DEFAULT_CLASS: "false"})], ["c"], id="none"),
        pytest.param(
            [storage_class("a", **IS_DEFAULT), storage_class("b", day=2, **IS_DEFAULT)],
            ["a", "b (default)"],
            id="the newest",
        ),
        pytest.param(
            [storage_class("b", **IS_DEFAULT), storage_class("a", **IS_DEFAULT)], ["b", "a (default)"], id="the first"
        ),
    ],
)
def test_list_marks_the_effective_default_class(classes: list[Body], want: list[str]) -> None:
    printer = rules_of(kinds.STORAGE_CLASS).printer
    assert printer.derive_of_list is not None
    of_list = printer.derive_of_list(classes)
    assert [printer.cells(each, 0.0, of_list)[0] for each in classes] == want


def test_single_class_is_not_marked() -> None:
    assert row(kinds.STORAGE_CLASS, storage_class("c", **IS_DEFAULT))["Name"] == "c"


def test_csi_nodes() -> None:
    node = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "a"}, {"name": "b"}]}}
    assert row(kinds.CSI_NODE, node) == {"Name": "n", "Drivers": 2, "Age": "5m"}


def test_drivers() -> None:
    driver: Body = {
        "metadata": {"name": "d"},
        "spec": {"attachRequired": True, "storageCapacity": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"]},
    }
    assert row(kinds.CSI_DRIVER, driver) == {
        "Name": "d",
        "AttachRequired": True,
        "PodInfoOnMount": False,
        "StorageCapacity": True,
        "TokenRequests": "<unset>",
        "RequiresRepublish": False,
        "Modes": "Persistent,Ephemeral",
        "Age": "5m",
    }


def test_capacities() -> None:
    assert row(kinds.STORAGE_CAPACITY, {"metadata": {"name": "c"}}) == {
        "Name": "c",
        "Created At": "2025-12-31T23:55:00Z",
    }


def test_attachments() -> None:
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    attachment: Body = {"metadata": {"name": "a"}, "spec": spec, "status": {"attached": True}}
    assert row(kinds.VOLUME_ATTACHMENT, attachment) == {
        "Name": "a",
        "Attacher": "d",
        "PV": "v",
        "Node": "n",
        "Attached": True,
        "Age": "5m",
    }
