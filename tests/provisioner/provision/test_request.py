"""Class parameters: what drivers see, what they do not, and which file system is meant.

Plans: the request and the draft of the volume, field by field; and which mistake is told first.

The PersistentVolume of a made volume.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.kinds import CLAIM, STORAGE_CLASS
from mooring.api.views.storage import Claim, StorageClass
from mooring.csi.contract import AccessMode, ControllerCapability, DriverVolume, Topology
from mooring.provisioner.provision.request import (
    PROVISIONER_IDENTITY,
    ProvisioningPlan,
    driver_parameters,
    fs_type_of,
    size,
    unusable,
    volume_body,
)
from mooring.provisioner.settings import DriverFacts, ProvisionerSettings, ProvisioningFailure, ProvisioningState
from support.builders import a_claim, a_class
from support.csi_drivers.recording import ABLE, DRIVER, KEY
from support.provisioner.plans import MADE, NODE, UID, facts, plan_of, planned

P = "csi.storage.k8s.io/"


@pytest.mark.parametrize(
    ("parameters", "want"),
    [
        pytest.param({}, "ext4", id="nothing said: the default"),
        pytest.param({"fstype": "xfs"}, "xfs", id="unprefixed"),
        pytest.param({"fsType": "xfs"}, "xfs", id="in any case"),
        pytest.param({f"{P}fstype": "btrfs"}, "btrfs", id="prefixed"),
        pytest.param({"fstype": ""}, "", id="said to be empty"),
    ],
)
def test_file_system(parameters: Mapping[str, str], want: str) -> None:
    assert fs_type_of(parameters, "ext4") == want


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"fstype": "xfs", f"{P}fstype": "xfs"}, id="both spellings, though they agree"),
        pytest.param({"fstype": "xfs", "FSTYPE": "ext4"}, id="two cases"),
    ],
)
def test_file_system_given_twice(parameters: Mapping[str, str]) -> None:
    with pytest.raises(ProvisioningFailure) as caught:
        fs_type_of(parameters, "")
    assert caught.value.state is ProvisioningState.FINISHED


@pytest.mark.req("C7.create-parameters")
def test_drivers_see_their_own_keys_and_the_old_spellings() -> None:
    given = {
        "kind": "fast",
        "fstype": "xfs",
        "csiProvisionerSecretName": "s",
        f"{P}fstype": "xfs",
        f"{P}node-stage-secret-name": "s",
        f"{P}node-stage-secret-namespace": "n",
        f"{P}secret-name": "s",
    }
    assert driver_parameters(given) == {"kind": "fast", "fstype": "xfs", "csiProvisionerSecretName": "s"}


def test_an_unknown_reserved_key_is_a_mistake() -> None:
    with pytest.raises(ProvisioningFailure) as caught:
        driver_parameters({f"{P}fstyp": "xfs"})
    assert caught.value.state is ProvisioningState.FINISHED
    assert caught.value.text == (
        'found unknown parameter key "csi.storage.k8s.io/fstyp" with reserved namespace csi.storage.k8s.io/'
    )


def test_extra_create_metadata_parameters() -> None:
    claim = a_claim(name="c", namespace="n", uid=UID, storage_class="made", selected_node=NODE)
    plan = plan_of(claim, settings=ProvisionerSettings(extra_create_metadata=True))
    assert plan.request.parameters == {
        f"{P}pvc/name": "c",
        f"{P}pvc/namespace": "n",
        f"{P}pv/name": f"pvc-{UID}",
    }


def with_options(*options: str) -> StorageClass:
    return msgspec.structs.replace(MADE, mount_options=options)


def test_the_plain_request() -> None:
    plan = plan_of()
    request = plan.request
    assert request.name == f"pvc-{UID}"
    assert request.required_bytes == 5 * 2**30
    assert request.limit_bytes == 0
    assert request.parameters == {}
    assert [(use.mode, use.block, use.fs_type, use.mount_flags) for use in request.capabilities] == [
        (AccessMode.SINGLE_NODE_WRITER, False, "", ())
    ]
    assert request.accessibility is not None
    assert request.accessibility.requisite == (Topology({KEY: NODE}),)
    assert plan.node == NODE
    assert plan.secret is None


def test_the_plain_draft() -> None:
    plan = plan_of()
    assert plan.draft == {
        "metadata": {
            "name": f"pvc-{UID}",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "made",
            "volumeMode": "Filesystem",
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": "default",
                "name": "claim-1",
                "uid": UID,
                "resourceVersion": "1",
            },
            "csi": {"driver": DRIVER},
        },
    }


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param(ProvisionerSettings(), f"pvc-{UID}", id="as usual"),
        pytest.param(ProvisionerSettings(volume_name_prefix="lv"), f"lv-{UID}", id="another prefix"),
        pytest.param(ProvisionerSettings(volume_name_uuid_length=8), "pvc-0123abcd", id="eight digits"),
        pytest.param(ProvisionerSettings(volume_name_uuid_length=10), "pvc-0123abcd45", id="dashes do not count"),
        pytest.param(
            ProvisionerSettings(volume_name_uuid_length=99),
            f"pvc-{UID.replace('-', '')}",
            id="more digits than there are",
        ),
    ],
)
def test_names(settings: ProvisionerSettings, want: str) -> None:
    plan = plan_of(settings=settings)
    assert plan.request.name == want
    assert plan.draft["metadata"]["name"] == want


@pytest.mark.parametrize(
    ("size", "want"),
    [
        pytest.param("1.5", 2, id="fractions round up"),
        pytest.param("1k", 1000, id="decimal units"),
        pytest.param(7, 7, id="a number"),
        pytest.param(None, 0, id="no size asked for"),
        pytest.param("1e30", 2**63 - 1, id="more than CSI can say"),
    ],
)
def test_sizes(size: str | int | None, want: int) -> None:
    plan = plan_of(a_claim(size=size, storage_class="made", selected_node=NODE))
    assert plan.request.required_bytes == want


FINER = facts(able=ABLE | {ControllerCapability.SINGLE_NODE_MULTI_WRITER})


@pytest.mark.parametrize(
    ("mode", "finer", "want"),
    [
        pytest.param("ReadWriteOnce", False, AccessMode.SINGLE_NODE_WRITER, id="one node"),
        pytest.param("ReadWriteOncePod", False, AccessMode.SINGLE_NODE_WRITER, id="one pod"),
        pytest.param("ReadOnlyMany", False, AccessMode.MULTI_NODE_READER_ONLY, id="many readers"),
        pytest.param("ReadWriteMany", False, AccessMode.MULTI_NODE_MULTI_WRITER, id="many writers"),
        pytest.param("ReadWriteOnce", True, AccessMode.SINGLE_NODE_MULTI_WRITER, id="one node, finer"),
        pytest.param("ReadWriteOncePod", True, AccessMode.SINGLE_NODE_SINGLE_WRITER, id="one pod, finer"),
        pytest.param("ReadOnlyMany", True, AccessMode.MULTI_NODE_READER_ONLY, id="many readers, finer"),
        pytest.param("ReadWriteMany", True, AccessMode.MULTI_NODE_MULTI_WRITER, id="many writers, finer"),
    ],
)
def test_modes(mode: str, finer: bool, want: AccessMode) -> None:
    claim = a_claim(access_modes=[mode], storage_class="made", selected_node=NODE)
    plan = plan_of(claim, about=FINER if finer else None)
    assert [use.mode for use in plan.request.capabilities] == [want]


def test_several_modes_keep_their_order_and_none_is_none() -> None:
    modes = ["ReadWriteMany", "ReadWriteOnce"]
    plan = plan_of(a_claim(access_modes=modes, selected_node=NODE))
    assert [use.mode for use in plan.request.capabilities] == [
        AccessMode.MULTI_NODE_MULTI_WRITER,
        AccessMode.SINGLE_NODE_WRITER,
    ]
    assert (plan_of(a_claim(access_modes=[], selected_node=NODE))).request.capabilities == ()


def test_file_systems_and_mount_options() -> None:
    plan = plan_of(None, with_options("noatime", "ro"), settings=ProvisionerSettings(default_fstype="ext4"))
    (use,) = plan.request.capabilities
    assert (use.fs_type, use.mount_flags) == ("ext4", ("noatime", "ro"))
    assert plan.draft["spec"]["csi"]["fsType"] == "ext4"
    assert plan.draft["spec"]["mountOptions"] == ["noatime", "ro"]


def test_raw_blocks_have_no_file_system() -> None:
    plan = plan_of(
        a_claim(mode="Block", selected_node=NODE),
        with_options("noatime"),
        settings=ProvisionerSettings(default_fstype="ext4"),
    )
    (use,) = plan.request.capabilities
    assert (use.block, use.fs_type, use.mount_flags) == (True, "", ())
    assert "fsType" not in plan.draft["spec"]["csi"]
    assert plan.draft["spec"]["volumeMode"] == "Block"


@pytest.mark.parametrize(
    ("modes", "flag", "want"),
    [
        pytest.param(["ReadOnlyMany"], True, True, id="many readers, and the flag"),
        pytest.param(["ReadOnlyMany"], False, None, id="without the flag"),
        pytest.param(["ReadOnlyMany", "ReadWriteOnce"], True, None, id="not only readers"),
        pytest.param(["ReadWriteOnce"], True, None, id="a writer"),
    ],
)
def test_read_only(modes: Sequence[str], flag: bool, want: bool | None) -> None:
    plan = plan_of(
        a_claim(access_modes=modes, selected_node=NODE), settings=ProvisionerSettings(controller_publish_readonly=flag)
    )
    assert plan.draft["spec"]["csi"].get("readOnly") == want


def test_metadata_for_drivers_that_tag() -> None:
    plan = plan_of(
        None,
        a_class(provisioner=DRIVER, parameters={"kind": "fast"}),
        settings=ProvisionerSettings(extra_create_metadata=True),
    )
    assert plan.request.parameters == {
        "kind": "fast",
        f"{P}pvc/name": "claim-1",
        f"{P}pvc/namespace": "default",
        f"{P}pv/name": f"pvc-{UID}",
    }


def test_only_provisioner_secret_goes_with_the_request() -> None:
    secrets = {f"{P}secret-name": "s", f"{P}secret-namespace": "n"}
    plan = plan_of(None, a_class(provisioner=DRIVER, parameters=secrets))
    assert plan.secret is not None
    assert plan.secret.body() == {"name": "s", "namespace": "n"}
    assert plan.request.parameters == {}
    notes = plan.draft["metadata"]["annotations"]
    assert notes["volume.kubernetes.io/provisioner-deletion-secret-name"] == "s"
    assert notes["volume.kubernetes.io/controller-modify-secret-namespace"] == "n"
    assert {field for field in plan.draft["spec"]["csi"] if field.endswith("SecretRef")} == {
        "controllerPublishSecretRef",
        "nodeStageSecretRef",
        "nodePublishSecretRef",
        "controllerExpandSecretRef",
        "nodeExpandSecretRef",
    }


def test_request_without_topology_has_no_requirements() -> None:
    plan = plan_of(about=facts(whole={"CONTROLLER_SERVICE"}))
    assert plan.request.accessibility is None


SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}


def filled_from(source: Mapping[str, str], field: str = "dataSource") -> Claim:
    body = {"metadata": {"name": "c", "namespace": "default", "uid": UID}, "spec": {field: dict(source)}}
    return CLAIM.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(filled_from(SOURCE), "restoring a VolumeSnapshot is not supported", id="a snapshot"),
        pytest.param(filled_from(SOURCE, "dataSourceRef"), "restoring a VolumeSnapshot", id="a snapshot, newer field"),
        pytest.param(filled_from(SOURCE | {"apiGroup": "x"}), "right APIGroup", id="a snapshot of another group"),
        pytest.param(filled_from({"kind": "PersistentVolumeClaim", "name": "c"}), "cloning", id="a clone"),
        pytest.param(
            filled_from({"kind": "X", "name": "x", "namespace": "other"}, "dataSourceRef"), "elsewhere", id="elsewhere"
        ),
        pytest.param(filled_from({"kind": "X"}), "has no name", id="a source without a name"),
        pytest.param(
            a_claim(selector={"matchLabels": {}}, selected_node=NODE), "claim Selector is not", id="a selector"
        ),
        pytest.param(
            a_claim(attributes_class="gold", selected_node=NODE), "volumeAttributesClassName", id="attributes"
        ),
        pytest.param(a_claim(access_modes=["Odd"], selected_node=NODE), "unknown access mode 'Odd'", id="an odd mode"),
        pytest.param(a_claim(size="many", selected_node=NODE), "is not an amount", id="an odd size"),
    ],
)
def test_claims_that_are_refused(claim: Claim, text: str) -> None:
    found = planned(claim)
    assert isinstance(found, ProvisioningFailure)
    assert found.state is ProvisioningState.FINISHED
    assert text in found.text


@pytest.mark.parametrize(
    ("about", "text"),
    [
        pytest.param(facts(whole=frozenset()), "CONTROLLER_SERVICE", id="no controller"),
        pytest.param(facts(able=frozenset()), "CREATE_DELETE_VOLUME", id="cannot make volumes"),
    ],
)
def test_drivers_that_cannot(about: DriverFacts, text: str) -> None:
    found = planned(about=about)
    assert isinstance(found, ProvisioningFailure)
    assert text in found.text


@pytest.mark.parametrize(
    ("claim", "parameters", "first"),
    [
        pytest.param(
            a_claim(selector={"matchLabels": {}}, selected_node=NODE), {f"{P}odd": "x"}, "Selector", id="selector, key"
        ),
        pytest.param(
            a_claim(access_modes=["Odd"], selected_node=NODE),
            {"fstype": "a", "FsType": "b"},
            "fstype",
            id="fstype, mode",
        ),
        pytest.param(a_claim(access_modes=["Odd"], selected_node="gone"), {}, "access mode", id="mode, topology"),
        pytest.param(
            a_claim(selected_node="gone"), {f"{P}secret-name": "s"}, "accessibility requirements", id="topology, secret"
        ),
        pytest.param(
            a_claim(selected_node=NODE), {f"{P}secret-name": "s", f"{P}odd": "x"}, "only one of", id="secret, key"
        ),
    ],
)
def test_first_of_two_failures_is_reported(claim: Claim, parameters: Mapping[str, str], first: str) -> None:
    found = planned(claim, a_class(provisioner=DRIVER, parameters=parameters))
    assert isinstance(found, ProvisioningFailure)
    assert first in found.text


_keys = st.text("abc/.-", min_size=1, max_size=8)


@given(st.dictionaries(_keys, st.text(max_size=5)), st.integers(0, 2**63 - 1), st.sampled_from(["Filesystem", "Block"]))
def test_a_plan_survives_being_written_down(parameters: dict[str, str], size: int, mode: str) -> None:
    """The same request must be made after a restart, to the last byte."""
    claim = a_claim(size=size, mode=mode, selected_node=NODE)
    found = planned(claim, a_class(provisioner=DRIVER, parameters=parameters))
    if isinstance(found, ProvisioningPlan):
        assert msgspec.json.decode(msgspec.json.encode(found), type=ProvisioningPlan) == found
        assert found.request.parameters == parameters


def test_keys_of_a_class_come_from_the_view() -> None:
    body = {"metadata": {"name": "c"}, "provisioner": DRIVER, "mountOptions": ["ro"]}
    assert STORAGE_CLASS.decode(msgspec.json.encode(body)).mount_options == ("ro",)
    assert well_known.EXTERNAL_PROVISIONER == "external-provisioner.volume.kubernetes.io/finalizer"


AT = "2026-01-02T03:04:05.000000Z"
GI = 2**30


def body_of(volume: DriverVolume, about: DriverFacts | None = None) -> dict[str, Any]:
    return volume_body(plan_of(), volume, about or facts(), created_at=AT)


def test_what_the_driver_answered_is_in_it() -> None:
    place = Topology({"b": "2", "a": "1"})
    body = body_of(DriverVolume("v-1", 6 * GI, {"pool": "a"}, (place,)))
    spec = body["spec"]
    assert spec["capacity"] == {"storage": "6Gi"}
    assert spec["csi"]["driver"] == DRIVER
    assert spec["csi"]["volumeHandle"] == "v-1"
    assert spec["csi"]["volumeAttributes"] == {PROVISIONER_IDENTITY: "id", "pool": "a"}
    assert spec["nodeAffinity"]["required"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "b", "operator": "In", "values": ["2"]},
            ]
        }
    ]
    assert body["metadata"]["annotations"][well_known.VOLUME_CREATED_AT] == AT


def test_the_drivers_word_wins_over_ours_in_the_attributes() -> None:
    body = body_of(DriverVolume("v-1", context={PROVISIONER_IDENTITY: "theirs"}))
    assert body["spec"]["csi"]["volumeAttributes"] == {PROVISIONER_IDENTITY: "theirs"}


def test_unknown_capacity_becomes_requested_size() -> None:
    assert body_of(DriverVolume("v-1"))["spec"]["capacity"] == {"storage": "5Gi"}


@pytest.mark.parametrize(
    ("places", "about", "terms"),
    [
        pytest.param([], facts(), None, id="usable everywhere"),
        pytest.param([{}], facts(), None, id="a place that says nothing: no terms the API would always refuse"),
        pytest.param([{"z": "a"}, {}, {"z": "b"}], facts(), 2, id="empty places are left out"),
        pytest.param([{"z": "a"}], facts(whole=frozenset()), None, id="a driver that knows no topology"),
    ],
)
def test_places(places: Sequence[Mapping[str, str]], about: DriverFacts, terms: int | None) -> None:
    body = body_of(DriverVolume("v-1", accessible_from=tuple(Topology(each) for each in places)), about)
    affinity = body["spec"].get("nodeAffinity")
    assert (None if affinity is None else len(affinity["required"]["nodeSelectorTerms"])) == terms


def test_drafts_are_not_written_into() -> None:
    plan = plan_of()
    before = repr(plan.draft)
    volume_body(plan, DriverVolume("v-1", context={"a": "b"}), facts(), created_at=AT)
    assert repr(plan.draft) == before


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        pytest.param(DriverVolume("v", 5 * GI), "", id="as large as asked"),
        pytest.param(DriverVolume("v", 0), "", id="size not said"),
        pytest.param(DriverVolume("v", 5 * GI - 1), "less than requested capacity", id="a byte too small"),
        pytest.param(DriverVolume("", 5 * GI), "without an id", id="no id"),
    ],
)
def test_volumes_that_cannot_be_used(volume: DriverVolume, text: str) -> None:
    flaw = unusable(plan_of(), volume)
    assert (flaw is None) == (text == "")
    if flaw is not None:
        assert flaw.state is ProvisioningState.IN_BACKGROUND
        assert text in flaw.text


@pytest.mark.parametrize(
    ("count", "want"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(1, "1", id="bytes"),
        pytest.param(1500, "1500", id="not whole kibibytes"),
        pytest.param(1024, "1Ki", id="a kibibyte"),
        pytest.param(3 * 2**29, "1536Mi", id="the largest unit that is exact"),
        pytest.param(2**60, "1Ei", id="an exbibyte"),
        pytest.param(2**63 - 1, "9223372036854775807", id="the largest"),
    ],
)
def test_binary_sizes(count: int, want: str) -> None:
    assert size(count) == want
