"""Validation of StorageClasses, claims and volumes."""

import pytest

from mooring.api.errors import Forbidden
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from support.builders import Body, claim_body, claim_ref, class_body, reachable_from, volume_body
from support.server.harness import ABSENT, Harness, altered, begins, problems

CLASS = class_body(name="a", parameters={"type": "ssd"})
CLAIM_BODY = claim_body(name="a")
VOLUME_BODY = volume_body(name="a", node="n1")

Change = tuple[str, object]


@pytest.mark.parametrize(
    ("kind", "body", "change", "expected"),
    [
        pytest.param(
            STORAGE_CLASS, CLASS, ("provisioner", ""), ["provisioner: Required value"], id="class without provisioner"
        ),
        pytest.param(
            STORAGE_CLASS,
            CLASS,
            ("reclaimPolicy", "Recycle"),
            ['reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'],
            id="class that recycles",
        ),
        pytest.param(
            STORAGE_CLASS,
            CLASS,
            ("volumeBindingMode", "Later"),
            ['volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"'],
            id="class that binds later",
            marks=[pytest.mark.req("T3.values"), pytest.mark.level("u")],
        ),
        pytest.param(
            STORAGE_CLASS,
            CLASS,
            (
                "allowedTopologies",
                [{"matchLabelExpressions": [{"key": "zone"}, {"key": "zone", "values": ["a", "a"]}]}],
            ),
            [
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
                'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"',
                'allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "a"',
            ],
            id="class for no place, twice",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.accessModes", []),
            ["spec.accessModes: Required value: at least 1 access mode is required"],
            id="claim without access mode",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.accessModes", ["ReadWriteSometimes"]),
            [
                'spec.accessModes: Unsupported value: "ReadWriteSometimes": supported values: '
                '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
            ],
            id="claim with an access mode that is none",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]),
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
            id="claim for one pod and others",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.resources", {}),
            ["spec.resources[storage]: Required value"],
            id="claim of no size",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.resources.requests.storage", 0),
            ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
            id="claim of nothing",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.volumeMode", "Tape"),
            ['spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"'],
            id="claim of a tape",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.selector", {"matchLabels": {"a b": ""}}),
            ['spec.selector.matchLabels: Invalid value: "a b"'],
            id="claim for labels that cannot be",
        ),
        pytest.param(
            CLAIM,
            CLAIM_BODY,
            ("spec.storageClassName", "A B"),
            ["spec.storageClassName: Invalid value"],
            id="class name",
        ),
        pytest.param(VOLUME, VOLUME_BODY, ("spec.capacity", {}), ["spec.capacity: "] * 2, id="no capacity"),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.capacity", {"storage": "0", "cpu": "1"}),
            [
                'spec.capacity: Unsupported value: "cpu, storage": supported values: "storage"',
                'spec.capacity[storage]: Invalid value: "0": must be greater than zero',
            ],
            id="capacity of other things",
        ),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.accessModes", ABSENT),
            ["spec.accessModes: Required value"],
            id="volume without access mode",
        ),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.hostPath", {"path": "/x"}),
            ["spec.hostPath: Forbidden: may not specify more than 1 volume type"],
            id="two sources",
        ),
        pytest.param(
            VOLUME,
            volume_body(name="a"),
            ("spec.local", ABSENT),
            ["spec: Required value: must specify a volume type"],
            id="no source",
        ),
        pytest.param(
            VOLUME,
            volume_body(name="a"),
            ("metadata.labels", {}),
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
            id="local to nowhere",
        ),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.nodeAffinity", {}),
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"],
            id="affinity to nothing",
        ),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.nodeAffinity.required.nodeSelectorTerms", []),
            ["spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"],
            id="affinity without terms",
        ),
        *(
            pytest.param(
                VOLUME, altered(VOLUME_BODY, ("spec.local", ABSENT)), (f"spec.{source}", what), [problem], id=id_
            )
            for source, what, problem, id_ in (
                (
                    "csi",
                    {"driver": "../../../tmp/x", "volumeHandle": "h"},
                    'spec.csi.driver: Invalid value: "../../../tmp/x": a lowercase RFC 1123 subdomain',
                    "a driver elsewhere",
                ),
                (
                    "csi",
                    {"driver": "d" * 64, "volumeHandle": "h"},
                    "spec.csi.driver: Too long: may not be more than 63 bytes",
                    "a driver of a long name",
                ),
                (
                    "csi",
                    {"driver": "d", "volumeHandle": "h", "nodeExpandSecretRef": {"name": "../s", "namespace": "n"}},
                    'spec.csi.nodeExpandSecretRef.name: Invalid value: "../s"',
                    "a secret elsewhere",
                ),
                (
                    "hostPath",
                    {"path": "/data/../../etc"},
                    "spec.hostPath.path: Invalid value: \"/data/../../etc\": must not contain '..'",
                    "a path that leads out",
                ),
                ("hostPath", {"path": "/x", "type": "Odd"}, 'spec.hostPath.type: Unsupported value: "Odd"', "a type"),
                (
                    "local",
                    {"path": "../x"},
                    "spec.local.path: Invalid value: \"../x\": must not contain '..'",
                    "a local path that leads out",
                ),
                (
                    "nfs",
                    {"server": "s", "path": "x"},
                    'spec.nfs.path: Invalid value: "x": must be an absolute path',
                    "a relative export",
                ),
            )
        ),
        pytest.param(
            VOLUME,
            altered(VOLUME_BODY, ("spec.local", ABSENT)),
            ("spec.csi", {"driver": "d"}),
            ["spec.csi.volumeHandle: Required value"],
            id="driver without a handle",
        ),
        pytest.param(
            VOLUME,
            VOLUME_BODY,
            ("spec.persistentVolumeReclaimPolicy", "Shred"),
            [
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Shred": '
                'supported values: "Delete", "Recycle", "Retain"'
            ],
            id="no such policy",
        ),
    ],
)
async def test_objects_that_are_refused(
    server: Harness, kind: Kind, body: Body, change: Change, expected: list[str]
) -> None:
    found = await problems(server.create(kind, altered(body, change)))
    assert begins(found, expected), found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            ("provisioner", "b.io/x"),
            ["provisioner: Invalid value"],
            id="provisioner",
        ),
        pytest.param(("parameters", {}), ["parameters: Invalid value"], id="parameters"),
        pytest.param(
            ("reclaimPolicy", "Retain"),
            ["reclaimPolicy: Invalid value"],
            id="reclaim policy",
        ),
        pytest.param(
            ("volumeBindingMode", "Immediate"),
            ["volumeBindingMode: Invalid value: null: field is immutable"],
            id="binding mode",
        ),
        pytest.param(("allowVolumeExpansion", True), [], id="growth may be allowed"),
        pytest.param(("mountOptions", ["ro"]), [], id="mount options may change"),
        pytest.param(
            ("allowedTopologies", [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]),
            [],
            id="places may change",
        ),
    ],
)
async def test_changes_of_a_class(server: Harness, change: Change, expected: list[str]) -> None:
    old = await server.create(STORAGE_CLASS, CLASS)
    found = await problems(server.update(STORAGE_CLASS, altered(old, change)))
    assert begins(found, expected), found


IMMUTABLE = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
SIZE = "spec.resources.requests.storage"


async def claim(server: Harness, *, bound: bool, **fields: object) -> Body:
    """A claim of a class whose volumes can grow."""
    await server.create(STORAGE_CLASS, class_body(name="local") | {"allowVolumeExpansion": True})
    obj = await server.create(CLAIM, claim_body(name="a", **fields))  # type: ignore[arg-type]
    if bound:
        status = {"phase": "Bound", "capacity": {"storage": "5Gi"}}
        obj = await server.patch(CLAIM, "a", MergePatch({"status": status}), subresource="status")
    return obj


@pytest.mark.parametrize(
    ("bound", "change", "expected"),
    [
        pytest.param(False, ("spec.volumeName", "v1"), [], id="a volume may be named"),
        pytest.param(False, (SIZE, "6Gi"), [IMMUTABLE], id="a waiting claim does not grow"),
        pytest.param(True, (SIZE, "6Gi"), [], id="a bound claim grows"),
        pytest.param(
            True,
            (SIZE, "4Gi"),
            [f"{SIZE}: Forbidden: field can not be less than status.capacity"],
            id="a bound claim does not shrink",
        ),
        pytest.param(True, ("spec.volumeAttributesClassName", "gold"), [], id="a bound claim changes its attributes"),
        pytest.param(False, ("spec.volumeAttributesClassName", "gold"), [IMMUTABLE], id="a waiting one does not"),
        pytest.param(False, ("spec.storageClassName", "other"), [IMMUTABLE], id="the class stays"),
        pytest.param(False, ("spec.accessModes", ["ReadOnlyMany"]), [IMMUTABLE], id="the modes stay"),
        pytest.param(
            False, ("metadata.annotations", {"volume.kubernetes.io/selected-node": "n"}), [], id="a node chosen"
        ),
    ],
)
async def test_changes_of_a_claim(server: Harness, bound: bool, change: Change, expected: list[str]) -> None:
    old = await claim(server, bound=bound)
    assert await problems(server.update(CLAIM, altered(old, change))) == expected


async def test_claim_volume_can_be_set_once(server: Harness) -> None:
    old = await claim(server, bound=False, volume="v1")
    for other in ("v2", ""):
        assert await problems(server.update(CLAIM, altered(old, ("spec.volumeName", other)))) == [IMMUTABLE]


async def test_claim_class_can_be_set_once(server: Harness) -> None:
    old = await claim(server, bound=False, storage_class=None)
    new = await server.update(CLAIM, altered(old, ("spec.storageClassName", "local")))
    assert await problems(server.update(CLAIM, altered(new, ("spec.storageClassName", "b")))) == [IMMUTABLE]


async def test_claim_request_can_shrink_before_expansion(server: Harness) -> None:
    old = await claim(server, bound=True)
    grown = await server.update(CLAIM, altered(old, (SIZE, "20Gi")))
    assert (await server.update(CLAIM, altered(grown, (SIZE, "6Gi"))))["spec"]["resources"]["requests"] == {
        "storage": "6Gi"
    }


@pytest.mark.parametrize("name", ["fixed", "gone"])
async def test_claim_expansion_requires_class_support(server: Harness, name: str) -> None:
    await server.create(STORAGE_CLASS, class_body(name="fixed"))
    old = await claim(server, bound=True, storage_class=name)
    with pytest.raises(
        Forbidden, match=r'^persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can'
    ):
        await server.update(CLAIM, altered(old, (SIZE, "6Gi")))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(("spec.claimRef", claim_ref(name="c", uid="u")), [], id="the claim"),
        pytest.param(("spec.persistentVolumeReclaimPolicy", "Delete"), [], id="the policy"),
        pytest.param(("spec.capacity.storage", "20Gi"), [], id="the size"),
        pytest.param(("spec.storageClassName", "other"), [], id="the class"),
        pytest.param(
            ("spec.local.path", "/other"),
            ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
            id="the source",
        ),
        pytest.param(
            ("spec.volumeMode", "Block"), ['volumeMode: Invalid value: "Block": field is immutable'], id="the mode"
        ),
        pytest.param(
            ("spec.nodeAffinity.required", reachable_from("zone", "a")),
            ['spec.nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":'],
            id="the affinity",
        ),
    ],
)
async def test_changes_of_a_volume(server: Harness, change: Change, expected: list[str]) -> None:
    old = await server.create(VOLUME, VOLUME_BODY)
    found = await problems(server.update(VOLUME, altered(old, change)))
    assert begins(found, expected), found


async def test_claim_ref_of_a_volume_can_be_removed(server: Harness) -> None:
    old = await server.create(VOLUME, altered(VOLUME_BODY, ("spec.claimRef", claim_ref(name="c"))))
    new = await server.patch(VOLUME, "a", MergePatch({"spec": {"claimRef": None}}))
    assert "claimRef" in old["spec"]
    assert "claimRef" not in new["spec"]


async def test_volume_affinity_can_be_set_once(server: Harness) -> None:
    old = await server.create(VOLUME, altered(volume_body(name="a"), ("spec.local", ABSENT), ("spec.nfs", NFS)))
    new = await server.update(VOLUME, altered(old, ("spec.nodeAffinity.required", reachable_from("zone", "a"))))
    assert await problems(server.update(VOLUME, altered(new, ("spec.nodeAffinity", ABSENT)))) == [
        'spec.nodeAffinity: Invalid value: "": field is immutable'
    ]


NFS = {"server": "s", "path": "/"}
