"""What `mooring capacity` makes of listed objects, row by row."""

import json

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.kinds import LEASE
from mooring.api.views.core import Lease
from mooring.cli.commands.capacity import (
    DRIVER_LABEL,
    HEADINGS,
    MANAGED_BY_LABEL,
    WIDE_HEADINGS,
    DatedCapacity,
    Listed,
    Row,
    rows,
    table,
)
from support.builders import a_claim, a_class, a_node, a_volume, capacity_body, claim_ref

GI = 2**30
OURS = {DRIVER_LABEL: "disks.example.com", MANAGED_BY_LABEL: "external-provisioner"}
NODES = tuple(a_node(name=f"node-{number}", zone="a" if number < 3 else "b") for number in range(1, 4))
CLASSES = (a_class(name="made", provisioner="disks.example.com"), a_class(name="also", provisioner="disks.example.com"))


def reported(
    name: str = "csisc-1", *, zone: str = "a", storage_class: str = "made", **metadata: object
) -> DatedCapacity:
    body = capacity_body(
        name=name,
        topology={"matchLabels": {well_known.ZONE: zone}},
        storage_class=storage_class,
        capacity="10240Mi",
        largest="4Gi",
    )
    body["metadata"] |= {"labels": OURS, "uid": f"{name}-uid", "resourceVersion": "1"} | metadata
    return msgspec.json.decode(msgspec.json.encode(body), type=DatedCapacity)


def polled_at(time: str) -> Lease:
    body = {"metadata": {"name": "l", "namespace": "default", "labels": OURS}, "spec": {"renewTime": time}}
    return LEASE.decode(json.dumps(body).encode())


def only(listed: Listed) -> Row:
    (row,) = rows(listed)
    return row


@pytest.mark.req("C17.visible")
def test_a_row_says_it_all() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "driver", "uid": "u", "controller": True}
    found = reported(
        ownerReferences=[owner], annotations={well_known.CAPACITY_POLLED_AT: "2026-01-02T03:04:05.000000Z"}
    )
    row = only(Listed((found,), CLASSES, NODES, leases=(polled_at("2026-01-02T03:05:00.000000Z"),)))
    assert row == Row(
        namespace="default",
        name="csisc-1",
        driver="disks.example.com",
        storage_class="made",
        segment={well_known.ZONE: "a"},
        nodes=2,
        capacity="10Gi",
        maximum_volume_size="4Gi",
        in_flight=0,
        last_changed="2026-01-02T03:04:05.000000Z",
        last_polled="2026-01-02T03:05:00.000000Z",
        owner="Deployment/driver",
        managed_by="external-provisioner",
    )


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param(
            {"creationTimestamp": "2026-01-01T00:00:00Z"}, "2026-01-01T00:00:00Z", id="made, and nothing since"
        ),
        pytest.param(
            {
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"time": "2026-01-02T00:00:00Z"}, {"time": "2026-01-03T00:00:00Z"}],
            },
            "2026-01-03T00:00:00Z",
            id="a stock publisher: as the server noted",
        ),
        pytest.param(
            {
                "annotations": {well_known.CAPACITY_POLLED_AT: "2026-01-04T00:00:00.000000Z"},
                "managedFields": [{"time": "2026-01-05T00:00:00Z"}],
            },
            "2026-01-04T00:00:00.000000Z",
            id="what the publisher says comes first",
        ),
    ],
)
def test_when_it_changed(metadata: dict[str, object], want: str) -> None:
    assert only(Listed((reported(**metadata),), CLASSES, NODES)).last_changed == want


WAITS = a_claim(name="waits", storage_class="made", size="3Gi", selected_node="node-1", uid="waits")


@pytest.mark.parametrize(
    ("listed", "in_flight"),
    [
        pytest.param({"claims": (WAITS,)}, 3 * GI, id="its node is chosen and its volume is not there"),
        pytest.param({"claims": (a_claim(storage_class="made"),)}, 0, id="no node is chosen"),
        pytest.param(
            {"claims": (a_claim(storage_class="made", size="3Gi", selected_node="node-3"),)}, 0, id="elsewhere"
        ),
        pytest.param(
            {"claims": (a_claim(storage_class="also", size="2Gi", selected_node="node-2"),)},
            2 * GI,
            id="another class of the driver takes from the same room",
        ),
        pytest.param(
            {"claims": (WAITS,), "volumes": (a_volume(claim_ref=claim_ref(name="waits", uid="waits")),)},
            0,
            id="its volume is there",
        ),
        pytest.param(
            {"claims": (a_claim(storage_class="made", selected_node="node-1", volume="v", bound=True),)}, 0, id="bound"
        ),
    ],
)
@pytest.mark.req("C16.in-flight")
def test_in_flight(listed: dict[str, tuple[object, ...]], in_flight: int) -> None:
    found = msgspec.structs.replace(Listed((reported(),), CLASSES, NODES), **listed)
    assert only(found).in_flight == in_flight


def test_order_and_strangers() -> None:
    listed = Listed(
        (
            reported("c", zone="b"),
            reported("b", storage_class="also"),
            reported("a"),
            reported("z", storage_class="unknown", labels={}),
        ),
        CLASSES,
        NODES,
    )
    assert [row.name for row in rows(listed)] == ["z", "b", "a", "c"]
    assert rows(listed)[0].driver == ""


def test_the_table() -> None:
    found = reported(annotations={well_known.CAPACITY_POLLED_AT: "1970-01-01T00:00:30.000000Z"})
    shown = rows(Listed((found,), CLASSES, NODES, (WAITS,)))
    heads, cells = table(shown, now=90.0, wide=False)
    assert dict(zip(heads, cells, strict=True)) == {
        "DRIVER": "disks.example.com",
        "CLASS": "made",
        "SEGMENT": f"{well_known.ZONE}=a",
        "NODES": "2",
        "CAPACITY": "10Gi",
        "MAX SIZE": "4Gi",
        "IN FLIGHT": "3Gi",
        "LAST CHANGED": "60s",
        "LAST POLLED": "-",
        "OWNER": "-",
    }
    assert heads == HEADINGS
    wide = table(shown, now=90.0, wide=True)
    assert wide[0] == WIDE_HEADINGS
    assert wide[1][-3:] == ("default", "csisc-1", "external-provisioner")


def test_a_driver_that_promises_nothing() -> None:
    body = capacity_body(storage_class="made", topology={})
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = msgspec.json.decode(msgspec.json.encode(body), type=DatedCapacity)
    shown = rows(Listed((found,), CLASSES, NODES))
    cells = dict(zip(*table(shown, now=0.0, wide=False), strict=True))
    assert (cells["SEGMENT"], cells["CAPACITY"], cells["NODES"]) == ("(all nodes)", "-", "0")
