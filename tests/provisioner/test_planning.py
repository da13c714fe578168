"""Plans: the request and the draft of the volume, field by field; and which mistake is told first."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_claim, a_class
from mooring.api import keys
from mooring.api.kinds import CLAIM, STORAGE_CLASS
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.csi.contract import AccessMode, ControllerCapability, Topology
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.planning import Plan
from mooring.provisioner.settings import DriverFacts, Settings
from provisioner.paper_driver import ABLE, DRIVER, KEY
from provisioner.plans import MADE, NODE, UID, facts, plan_of, planned

P = "csi.storage.k8s.io/"


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
        pytest.param(Settings(), f"pvc-{UID}", id="as usual"),
        pytest.param(Settings(volume_name_prefix="lv"), f"lv-{UID}", id="another prefix"),
        pytest.param(Settings(volume_name_uuid_length=8), "pvc-0123abcd", id="eight digits"),
        pytest.param(Settings(volume_name_uuid_length=10), "pvc-0123abcd45", id="dashes do not count"),
        pytest.param(
            Settings(volume_name_uuid_length=99), f"pvc-{UID.replace('-', '')}", id="more digits than there are"
        ),
    ],
)
def test_names(settings: Settings, want: str) -> None:
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
    plan = plan_of(None, with_options("noatime", "ro"), settings=Settings(default_fstype="ext4"))
    (use,) = plan.request.capabilities
    assert (use.fs_type, use.mount_flags) == ("ext4", ("noatime", "ro"))
    assert plan.draft["spec"]["csi"]["fsType"] == "ext4"
    assert plan.draft["spec"]["mountOptions"] == ["noatime", "ro"]


def test_raw_blocks_have_no_file_system() -> None:
    plan = plan_of(
        a_claim(mode="Block", selected_node=NODE), with_options("noatime"), settings=Settings(default_fstype="ext4")
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
    plan = plan_of(a_claim(access_modes=modes, selected_node=NODE), settings=Settings(controller_publish_readonly=flag))
    assert plan.draft["spec"]["csi"].get("readOnly") == want


def test_metadata_for_drivers_that_tag() -> None:
    plan = plan_of(
        None, a_class(provisioner=DRIVER, parameters={"kind": "fast"}), settings=Settings(extra_create_metadata=True)
    )
    assert plan.request.parameters == {
        "kind": "fast",
        f"{P}pvc/name": "claim-1",
        f"{P}pvc/namespace": "default",
        f"{P}pv/name": f"pvc-{UID}",
    }


def test_secrets_are_referred_to_and_only_the_provisioners_own_goes_along() -> None:
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


def test_a_driver_without_topology_is_told_nothing_of_nodes() -> None:
    plan = plan_of(about=facts(whole={"CONTROLLER_SERVICE"}))
    assert plan.request.accessibility is None


SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}


def filled_from(source: Mapping[str, str], field: str = "dataSource") -> Claim:
    body = {"metadata": {"name": "c", "namespace": "default", "uid": UID}, "spec": {field: dict(source)}}
    return CLAIM.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("claim", "said"),
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
def test_claims_that_are_refused(claim: Claim, said: str) -> None:
    found = planned(claim)
    assert isinstance(found, Refusal)
    assert found.state is State.FINISHED
    assert said in found.text


@pytest.mark.parametrize(
    ("about", "said"),
    [
        pytest.param(facts(whole=frozenset()), "CONTROLLER_SERVICE", id="no controller"),
        pytest.param(facts(able=frozenset()), "CREATE_DELETE_VOLUME", id="cannot make volumes"),
    ],
)
def test_drivers_that_cannot(about: DriverFacts, said: str) -> None:
    found = planned(about=about)
    assert isinstance(found, Refusal)
    assert said in found.text


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
def test_of_two_mistakes_the_first_is_told(claim: Claim, parameters: Mapping[str, str], first: str) -> None:
    found = planned(claim, a_class(provisioner=DRIVER, parameters=parameters))
    assert isinstance(found, Refusal)
    assert first in found.text


_keys = st.text("abc/.-", min_size=1, max_size=8)


@given(st.dictionaries(_keys, st.text(max_size=5)), st.integers(0, 2**63 - 1), st.sampled_from(["Filesystem", "Block"]))
def test_a_plan_survives_being_written_down(parameters: dict[str, str], size: int, mode: str) -> None:
    """The same request must be made after a restart, to the last byte."""
    claim = a_claim(size=size, mode=mode, selected_node=NODE)
    found = planned(claim, a_class(provisioner=DRIVER, parameters=parameters))
    if isinstance(found, Plan):
        assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found
        assert found.request.parameters == parameters


def test_keys_of_a_class_come_from_the_view() -> None:
    body = {"metadata": {"name": "c"}, "provisioner": DRIVER, "mountOptions": ["ro"]}
    assert STORAGE_CLASS.decode(msgspec.json.encode(body)).mount_options == ("ro",)
    assert keys.EXTERNAL_PROVISIONER == "external-provisioner.volume.kubernetes.io/finalizer"
