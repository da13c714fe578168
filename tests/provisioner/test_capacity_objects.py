"""Capacity objects: their form to the letter, and what of an existing one would have to change."""

import msgspec
import pytest

from builders import a_capacity
from mooring.api import keys
from mooring.api.views.meta import Meta, OwnerReference
from mooring.api.views.storage import StorageCapacity
from mooring.csi.contract import Capacity, DriverError
from mooring.provisioner.capacity_objects import Entry, Publisher, body, changes, checked, entry_of, managed_by
from provisioner.paper_driver import DRIVER, KEY

AT = "2026-01-02T03:04:05.000000Z"
OWNER = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="o-1", controller=True)
HERE = Entry(((KEY, "node-1"),), "fast")
US = Publisher(DRIVER, "external-provisioner", OWNER)
NOBODYS = Publisher(DRIVER, "external-provisioner")
GI = 2**30


@pytest.mark.req("C6.objects")
def test_the_object() -> None:
    assert body(HERE, US, Capacity(10 * GI, 4 * GI), AT) == {
        "metadata": {
            "generateName": "csisc-",
            "labels": {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
            "annotations": {"mooring.dev/capacity-polled-at": AT},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "driver", "uid": "o-1", "controller": True}
            ],
        },
        "nodeTopology": {"matchLabels": {KEY: "node-1"}},
        "storageClassName": "fast",
        "capacity": "10Gi",
        "maximumVolumeSize": "4Gi",
    }


@pytest.mark.req("C7.zero")
def test_zero_is_a_figure_and_a_missing_maximum_is_left_out() -> None:
    made = body(HERE, NOBODYS, Capacity(0), AT)
    assert made["capacity"] == "0"
    assert "maximumVolumeSize" not in made
    assert "ownerReferences" not in made["metadata"]


def test_the_whole_cluster_is_a_selector_without_labels() -> None:
    assert body(Entry((), "fast"), US, Capacity(1), AT)["nodeTopology"] == {"matchLabels": {}}


def there(**given: object) -> StorageCapacity:
    usual: dict[str, object] = {"storage_class": "fast", "topology": {"matchLabels": {KEY: "node-1"}}}
    return a_capacity(**(usual | given))  # type: ignore[arg-type]  # keywords of the builder


def owned(found: StorageCapacity, *owners: OwnerReference) -> StorageCapacity:
    meta = msgspec.structs.replace(found.metadata, owner_references=owners)
    return msgspec.structs.replace(found, metadata=meta)


@pytest.mark.parametrize(
    ("found", "publisher", "said", "want"),
    [
        pytest.param(there(capacity="10Gi"), NOBODYS, Capacity(10 * GI), {}, id="unchanged"),
        pytest.param(there(capacity="10240Mi"), NOBODYS, Capacity(10 * GI), {}, id="the same, spelled otherwise"),
        pytest.param(there(capacity="1Gi"), NOBODYS, Capacity(2 * GI), {"capacity": "2Gi"}, id="more room"),
        pytest.param(
            there(capacity="1Gi", largest="1Gi"),
            NOBODYS,
            Capacity(GI),
            {"maximumVolumeSize": None},
            id="no maximum now",
        ),
        pytest.param(
            there(capacity="1Gi"),
            NOBODYS,
            Capacity(GI, 5),
            {"maximumVolumeSize": "5"},
            id="a maximum for the first time",
        ),
        pytest.param(there(capacity="odd"), NOBODYS, Capacity(GI), {"capacity": "1Gi"}, id="somebody wrote nonsense"),
        pytest.param(
            there(capacity="1Gi", largest="1Gi"),
            NOBODYS,
            None,
            {"capacity": None, "maximumVolumeSize": None},
            id="the driver says nothing any more",
        ),
        pytest.param(there(), NOBODYS, None, {}, id="nothing was promised"),
        pytest.param(owned(there(capacity="1Gi"), OWNER), US, Capacity(GI), {}, id="owned as it should be"),
    ],
)
@pytest.mark.req("C8.unchanged", "C10.updated")
def test_changes(found: StorageCapacity, publisher: Publisher, said: Capacity | None, want: dict[str, object]) -> None:
    assert changes(found, publisher, said) == want


@pytest.mark.req("C8.owner")
def test_a_missing_owner_is_added_and_others_stay() -> None:
    other = OwnerReference(api_version="v1", kind="Pod", name="p", uid="o-2")
    changed = changes(owned(there(capacity="1Gi"), other), US, Capacity(GI))
    assert [each["uid"] for each in changed["metadata"]["ownerReferences"]] == ["o-2", "o-1"]


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(there(), HERE, id="ours"),
        pytest.param(there(topology={}), Entry((), "fast"), id="the whole cluster"),
        pytest.param(there(topology=None), None, id="no selector"),
        pytest.param(
            there(topology={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            None,
            id="a form nobody publishes",
        ),
        pytest.param(
            there(topology={"matchLabels": {"b": "2", "a": "1"}}),
            Entry((("a", "1"), ("b", "2")), "fast"),
            id="several keys, sorted",
        ),
    ],
)
def test_which_entry(found: StorageCapacity, want: Entry | None) -> None:
    assert entry_of(found) == want


@pytest.mark.parametrize(
    "said",
    [pytest.param(Capacity(-1), id="less than nothing free"), pytest.param(Capacity(5, -1), id="negative sizes")],
)
@pytest.mark.req("C7.nonsense")
def test_nonsense_is_no_answer(said: Capacity) -> None:
    with pytest.raises(DriverError, match="less than nothing"):
        checked(said)
    assert checked(Capacity(0, 0)) == Capacity(0, 0)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param("", "external-provisioner", id="one for the cluster"),
        pytest.param("node-1", "external-provisioner-node-1", id="one per node"),
        pytest.param("n" * 42, f"external-provisioner-{'n' * 42}", id="the longest that fits"),
        pytest.param("n" * 43, f"external-p-53f40b57-{'n' * 43}", id="shortened"),
        pytest.param("n" * 52, f"e-53f40b57-{'n' * 52}", id="shortened to one letter"),
    ],
)
def test_labels(node: str, want: str) -> None:
    assert managed_by(node) == want
    assert len(want) <= 63


def test_labels_of_very_long_names_stay_apart() -> None:
    one, other = managed_by("n" * 60 + "1"), managed_by("n" * 60 + "2")
    assert one != other
    assert max(len(one), len(other)) <= 63
    assert one.startswith("external-provisioner-")


def test_the_selector_of_a_publisher_finds_its_objects_alone() -> None:
    assert US.selector == f"csi.storage.k8s.io/drivername={DRIVER},csi.storage.k8s.io/managed-by=external-provisioner"
    assert keys.CAPACITY_POLLED_AT == "mooring.dev/capacity-polled-at"
    assert Meta().labels == {}
