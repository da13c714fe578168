"""Class parameters: what drivers see, what they do not, and which file system is meant."""

from collections.abc import Mapping

import pytest

from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.class_parameters import for_driver, fs_type, metadata

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
    assert fs_type(parameters, "ext4") == want


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"fstype": "xfs", f"{P}fstype": "xfs"}, id="both spellings, though they agree"),
        pytest.param({"fstype": "xfs", "FSTYPE": "ext4"}, id="two cases"),
    ],
)
def test_file_system_given_twice(parameters: Mapping[str, str]) -> None:
    found = fs_type(parameters, "")
    assert isinstance(found, Refusal)
    assert found.state is State.FINISHED


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
    assert for_driver(given) == {"kind": "fast", "fstype": "xfs", "csiProvisionerSecretName": "s"}


def test_an_unknown_reserved_key_is_a_mistake() -> None:
    found = for_driver({f"{P}fstyp": "xfs"})
    assert found == Refusal(
        State.FINISHED,
        'found unknown parameter key "csi.storage.k8s.io/fstyp" with reserved namespace csi.storage.k8s.io/',
    )


def test_metadata() -> None:
    assert metadata(claim_name="c", claim_namespace="n", volume_name="v") == {
        f"{P}pvc/name": "c",
        f"{P}pvc/namespace": "n",
        f"{P}pv/name": "v",
    }
