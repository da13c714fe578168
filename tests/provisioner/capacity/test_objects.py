"""The ledger: which entries are wanted and which objects are obsolete, after every kind of change.

Capacity objects: their form to the letter, and what of an existing one would have to change.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import Meta, OwnerReference
from mooring.api.views.storage import StorageCapacity, StorageClass
from mooring.csi.contract import Capacity, DriverError
from mooring.provisioner.capacity.objects import (
    CapacityKey,
    CapacityObjectCounts,
    CapacityObjectIndex,
    PublisherIdentity,
    body,
    changes,
    entry_of,
    managed_by,
    validated,
)
from mooring.provisioner.capacity.segments import Segment
from support.builders import a_capacity, a_class
from support.csi_drivers.recording import DRIVER, KEY

ONE: Segment = ((KEY, "node-1"),)
TWO: Segment = ((KEY, "node-2"),)


def of_driver(name: str = "fast", mode: str | None = "WaitForFirstConsumer", provisioner: str = DRIVER) -> StorageClass:
    return a_class(name=name, provisioner=provisioner, binding_mode=mode)


def an_object(name: str, segment: Segment, storage_class: str = "fast", version: str = "1") -> StorageCapacity:
    return a_capacity(
        name=name, storage_class=storage_class, topology={"matchLabels": dict(segment)}, capacity="1Gi", version=version
    )


def a_ledger(*segments: Segment, classes: tuple[StorageClass, ...] = (of_driver(),)) -> CapacityObjectIndex:
    index = CapacityObjectIndex(DRIVER)
    index.observe_segments(frozenset(segments))
    for each in classes:
        index.observe_class(None, each)
    return index


@pytest.mark.parametrize(
    ("storage_class", "counts"),
    [
        pytest.param(of_driver(), True, id="waits for a consumer"),
        pytest.param(of_driver(mode=None), True, id="an unset mode"),
        pytest.param(of_driver(mode="Immediate"), False, id="immediate"),
        pytest.param(of_driver(provisioner="other"), False, id="another driver's"),
    ],
)
@pytest.mark.req("C6.classes")
def test_which_classes_count(storage_class: StorageClass, counts: bool) -> None:
    index = a_ledger(ONE, classes=())
    looked_at = index.observe_class(None, storage_class)
    assert looked_at == ({CapacityKey(ONE, "fast")} if counts else set())
    assert index.desired() == looked_at


def test_immediate_classes_count_when_asked_for() -> None:
    index = CapacityObjectIndex(DRIVER, for_immediate_binding=True)
    index.observe_segments(frozenset({ONE}))
    assert index.observe_class(None, of_driver(mode="Immediate")) == {CapacityKey(ONE, "fast")}


@pytest.mark.req("C6.segments", "C9.node-change")
def test_segments_that_come_and_go() -> None:
    index = a_ledger(ONE)
    index.observe_object(None, an_object("a", ONE))
    assert index.observe_segments(frozenset({ONE, TWO})) == {CapacityKey(TWO, "fast")}
    assert index.observe_segments(frozenset({TWO})) == {CapacityKey(ONE, "fast")}
    assert index.class_of(CapacityKey(ONE, "fast")) is None
    assert index.counts() == CapacityObjectCounts(goal=1, current=0, obsolete=1)


@pytest.mark.req("C9.class-change")
def test_classes_that_come_change_and_go() -> None:
    index = a_ledger(ONE, TWO, classes=())
    entries = {CapacityKey(ONE, "fast"), CapacityKey(TWO, "fast")}
    assert index.observe_class(None, of_driver()) == entries
    assert index.observe_class(of_driver(), of_driver()) == entries
    assert index.observe_class(of_driver(), of_driver(mode="Immediate")) == entries, "they are obsolete now"
    assert index.observe_class(of_driver(mode="Immediate"), None) == set()


@pytest.mark.parametrize(
    ("before", "after", "looked_at"),
    [
        pytest.param(None, an_object("a", ONE), set(), id="the one that was wanted"),
        pytest.param(None, an_object("a", TWO), {CapacityKey(TWO, "fast")}, id="one of a segment that is not there"),
        pytest.param(
            None, an_object("a", ONE, "slow"), {CapacityKey(ONE, "slow")}, id="one of a class that is not there"
        ),
        pytest.param(an_object("a", ONE), None, {CapacityKey(ONE, "fast")}, id="deleted object"),
    ],
)
@pytest.mark.req("C8.obsolete", "C10.obsolete")
def test_objects(before: StorageCapacity | None, after: StorageCapacity | None, looked_at: set[CapacityKey]) -> None:
    assert a_ledger(ONE).observe_object(before, after) == looked_at


def test_of_two_objects_for_one_entry_the_older_stays() -> None:
    index = a_ledger(ONE)
    index.observe_object(None, an_object("b", ONE))
    assert index.observe_object(None, an_object("a", ONE)) == {CapacityKey(ONE, "fast")}
    assert [each.name for each in index.objects(CapacityKey(ONE, "fast"))] == ["a", "b"]
    assert index.counts() == CapacityObjectCounts(goal=1, current=1, obsolete=1)


def test_old_news_does_not_undo_an_own_write() -> None:
    index = a_ledger(ONE)
    index.put(CapacityKey(ONE, "fast"), an_object("a", ONE, version="5"))
    index.observe_object(None, an_object("a", ONE, version="4"))
    assert [each.metadata.resource_version for each in index.objects(CapacityKey(ONE, "fast"))] == ["5"]


def test_objects_with_foreign_selectors_are_obsolete() -> None:
    index = a_ledger(ONE)
    stray = a_capacity(name="odd", storage_class="fast", topology=None)
    assert index.observe_object(None, stray) == set()
    assert index.obsolete() == [stray]
    assert index.counts().obsolete == 1
    index.observe_object(stray, None)
    assert index.obsolete() == []


_SEGMENTS = st.sets(st.sampled_from([ONE, TWO, ()]))
_CLASSES = st.sets(st.sampled_from(["fast", "slow"]))


@given(st.lists(st.tuples(_SEGMENTS, _CLASSES), min_size=1, max_size=6))
def test_after_any_history_every_difference_was_to_be_looked_at(history: list[tuple[set[Segment], set[str]]]) -> None:
    """Syncing each returned key by creating or deleting its object ends with exactly the desired objects."""
    index = CapacityObjectIndex(DRIVER)
    there: dict[CapacityKey, StorageCapacity] = {}
    names: set[str] = set()
    for segments, classes in history:
        to_do = index.observe_segments(frozenset(segments))
        for name in sorted(names | classes):
            after = of_driver(name) if name in classes else None
            to_do |= index.observe_class(of_driver(name) if name in names else None, after)
        names = classes
        for entry in sorted(to_do):
            if index.class_of(entry) is not None and entry not in there:
                there[entry] = an_object(f"o{len(there)}{entry}", entry.segment, entry.storage_class)
                assert index.observe_object(None, there[entry]) == set()
            elif index.class_of(entry) is None and entry in there:
                assert index.observe_object(there.pop(entry), None) == set()
    assert set(there) == index.desired() == {CapacityKey(s, c) for s in history[-1][0] for c in history[-1][1]}
    assert index.counts() == CapacityObjectCounts(len(there), len(there), 0)


AT = "2026-01-02T03:04:05.000000Z"
OWNER = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="o-1", controller=True)
HERE = CapacityKey(((KEY, "node-1"),), "fast")
US = PublisherIdentity(DRIVER, "external-provisioner", OWNER)
WITHOUT_OWNER = PublisherIdentity(DRIVER, "external-provisioner")
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
    made = body(HERE, WITHOUT_OWNER, Capacity(0), AT)
    assert made["capacity"] == "0"
    assert "maximumVolumeSize" not in made
    assert "ownerReferences" not in made["metadata"]


def test_the_whole_cluster_is_a_selector_without_labels() -> None:
    assert body(CapacityKey((), "fast"), US, Capacity(1), AT)["nodeTopology"] == {"matchLabels": {}}


def there(**given: object) -> StorageCapacity:
    usual: dict[str, object] = {"storage_class": "fast", "topology": {"matchLabels": {KEY: "node-1"}}}
    return a_capacity(**(usual | given))  # type: ignore[arg-type]  # keywords of the builder


def owned(found: StorageCapacity, *owners: OwnerReference) -> StorageCapacity:
    meta = msgspec.structs.replace(found.metadata, owner_references=owners)
    return msgspec.structs.replace(found, metadata=meta)


@pytest.mark.parametrize(
    ("found", "publisher", "reported", "want"),
    [
        pytest.param(there(capacity="10Gi"), WITHOUT_OWNER, Capacity(10 * GI), {}, id="unchanged"),
        pytest.param(there(capacity="10240Mi"), WITHOUT_OWNER, Capacity(10 * GI), {}, id="the same, spelled otherwise"),
        pytest.param(there(capacity="1Gi"), WITHOUT_OWNER, Capacity(2 * GI), {"capacity": "2Gi"}, id="more room"),
        pytest.param(
            there(capacity="1Gi", largest="1Gi"),
            WITHOUT_OWNER,
            Capacity(GI),
            {"maximumVolumeSize": None},
            id="no maximum now",
        ),
        pytest.param(
            there(capacity="1Gi"),
            WITHOUT_OWNER,
            Capacity(GI, 5),
            {"maximumVolumeSize": "5"},
            id="a maximum for the first time",
        ),
        pytest.param(there(capacity="odd"), WITHOUT_OWNER, Capacity(GI), {"capacity": "1Gi"}, id="malformed quantity"),
        pytest.param(
            there(capacity="1Gi", largest="1Gi"),
            WITHOUT_OWNER,
            None,
            {"capacity": None, "maximumVolumeSize": None},
            id="the driver says nothing any more",
        ),
        pytest.param(there(), WITHOUT_OWNER, None, {}, id="nothing was promised"),
        pytest.param(owned(there(capacity="1Gi"), OWNER), US, Capacity(GI), {}, id="owned as it should be"),
    ],
)
@pytest.mark.req("C8.unchanged", "C10.updated")
def test_changes(
    found: StorageCapacity, publisher: PublisherIdentity, reported: Capacity | None, want: dict[str, object]
) -> None:
    assert changes(found, publisher, reported) == want


@pytest.mark.req("C8.owner")
def test_a_missing_owner_is_added_and_others_stay() -> None:
    other = OwnerReference(api_version="v1", kind="Pod", name="p", uid="o-2")
    changed = changes(owned(there(capacity="1Gi"), other), US, Capacity(GI))
    assert [each["uid"] for each in changed["metadata"]["ownerReferences"]] == ["o-2", "o-1"]


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(there(), HERE, id="ours"),
        pytest.param(there(topology={}), CapacityKey((), "fast"), id="the whole cluster"),
        pytest.param(there(topology=None), None, id="no selector"),
        pytest.param(
            there(topology={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            None,
            id="a foreign selector",
        ),
        pytest.param(
            there(topology={"matchLabels": {"b": "2", "a": "1"}}),
            CapacityKey((("a", "1"), ("b", "2")), "fast"),
            id="several keys, sorted",
        ),
    ],
)
def test_which_entry(found: StorageCapacity, want: CapacityKey | None) -> None:
    assert entry_of(found) == want


@pytest.mark.parametrize(
    "reported",
    [pytest.param(Capacity(-1), id="negative capacity"), pytest.param(Capacity(5, -1), id="negative maximum size")],
)
@pytest.mark.req("C7.nonsense")
def test_negative_capacity_is_an_error(reported: Capacity) -> None:
    with pytest.raises(DriverError, match="negative capacity"):
        validated(reported)
    assert validated(Capacity(0, 0)) == Capacity(0, 0)


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
    assert well_known.CAPACITY_POLLED_AT == "mooring.dev/capacity-polled-at"
    assert Meta().labels == {}
