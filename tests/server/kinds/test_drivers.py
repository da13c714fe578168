"""CSIDrivers, CSIStorageCapacities and VolumeAttachments: defaults, validation and immutable fields."""

import pytest

from mooring.api.kinds import CSI_DRIVER, STORAGE_CAPACITY, VOLUME_ATTACHMENT, Kind
from mooring.api.patches.contract import MergePatch
from support.builders import Body, attachment_body, capacity_body, driver_body
from support.server.harness import ABSENT, Harness, altered, begins, problems

Change = tuple[str, object]

DRIVER = driver_body()
CAPACITY = capacity_body(capacity="1Gi", topology={"matchLabels": {"zone": "a"}})
ATTACHMENT = attachment_body()


async def test_csi_driver_defaults(server: Harness) -> None:
    assert (await server.create(CSI_DRIVER, DRIVER))["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "preventPodSchedulingIfMissing": False,
    }


async def test_new_attachment_is_not_attached(server: Harness) -> None:
    made = await server.create(VOLUME_ATTACHMENT, ATTACHMENT | {"status": {"attached": True}})
    assert made["status"] == {"attached": False}

    attached = MergePatch({"status": {"attached": True}})
    reported = await server.patch(VOLUME_ATTACHMENT, "attachment-1", attached, subresource="status")
    assert reported["status"] == {"attached": True}


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(
            CSI_DRIVER,
            DRIVER,
            ("metadata.name", "d" * 64),
            [f'metadata.name: Invalid value: "{"d" * 64}": must be no more than 63 characters'],
            id="a driver with too long a name",
        ),
        pytest.param(
            CSI_DRIVER,
            DRIVER,
            ("spec", {"volumeLifecycleModes": ["Eternal"], "fsGroupPolicy": "Never"}),
            [
                'spec.volumeLifecycleModes: Unsupported value: "Eternal"',
                'spec.fsGroupPolicy: Unsupported value: "Never"',
            ],
            id="unknown modes and policies",
        ),
        pytest.param(
            VOLUME_ATTACHMENT,
            ATTACHMENT,
            ("spec.attacher", "../x"),
            ['spec.attacher: Invalid value: "../x"'],
            id="an attacher elsewhere",
        ),
        pytest.param(
            VOLUME_ATTACHMENT,
            ATTACHMENT,
            ("spec.source", {"inlineVolumeSpec": {"csi": {"driver": "../x", "volumeHandle": "h"}}}),
            ['spec.source.inlineVolumeSpec.csi.driver: Invalid value: "../x"'],
            id="a volume of its own with a driver elsewhere",
        ),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("metadata.name", "#%123-invalid-name"),
            ['metadata.name: Invalid value: "#%123-invalid-name"'],
            id="capacity under the name drivers try out",
        ),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("storageClassName", ABSENT),
            ['storageClassName: Invalid value: "": a lowercase RFC 1123 subdomain'],
            id="capacity of no class",
        ),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("capacity", "-1"),
            ['capacity: Invalid value: "-1": must be greater than or equal to 0'],
            id="less than nothing",
        ),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("nodeTopology", {"matchLabels": {"a b": "c"}}),
            ["nodeTopology.matchLabels: Invalid value"],
            id="capacity nowhere",
        ),
        pytest.param(
            VOLUME_ATTACHMENT,
            ATTACHMENT,
            ("spec", {}),
            ["spec.source: Required value", "spec.nodeName: Invalid value", "spec.attacher: Required value"],
            id="an attachment of nothing to nothing",
        ),
    ],
)
async def test_rules(server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]) -> None:
    found = await problems(server.create(kind, altered(body, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(CSI_DRIVER, DRIVER, ("spec.storageCapacity", True), [], id="a driver begins to report"),
        pytest.param(CSI_DRIVER, DRIVER, ("spec.podInfoOnMount", True), [], id="a driver wants to know the pod"),
        pytest.param(
            CSI_DRIVER,
            DRIVER,
            ("spec.attachRequired", False),
            ["spec.attachedRequired: Invalid value: false: field is immutable"],
            id="a driver attaches or does not",
        ),
        pytest.param(
            CSI_DRIVER,
            DRIVER,
            ("spec.volumeLifecycleModes", ["Ephemeral"]),
            ["spec.volumeLifecycleModes: Invalid value"],
            id="a driver's kinds of volumes",
        ),
        pytest.param(STORAGE_CAPACITY, CAPACITY, ("capacity", "2Gi"), [], id="capacity changes"),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("storageClassName", "other"),
            ['storageClassName: Invalid value: "other": field is immutable'],
            id="capacity of another class",
        ),
        pytest.param(
            STORAGE_CAPACITY,
            CAPACITY,
            ("nodeTopology", {"matchLabels": {"zone": "b"}}),
            ["nodeTopology: Invalid value"],
            id="capacity elsewhere",
        ),
        pytest.param(
            VOLUME_ATTACHMENT, ATTACHMENT, ("spec.nodeName", "n2"), ["spec: Invalid value"], id="attached elsewhere"
        ),
    ],
)
async def test_changes(server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]) -> None:
    old = await server.create(kind, body)
    found = await problems(server.update(kind, altered(old, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("kind", "body"), [(CSI_DRIVER, DRIVER), (STORAGE_CAPACITY, CAPACITY), (VOLUME_ATTACHMENT, ATTACHMENT)]
)
async def test_update_requires_resource_version(server: Harness, kind: Kind, body: Body) -> None:
    old = await server.create(kind, body)
    found = await problems(server.update(kind, altered(old, ("metadata.resourceVersion", ABSENT))))
    assert begins(found, ["metadata.resourceVersion: Invalid value: 0: must be specified for an update"]), found
