"""Tables of events in both forms."""

from typing import Any

import pytest

from mooring.api import kinds
from support.server.table_rows import row

Body = dict[str, Any]

COUNTED: Body = {
    "metadata": {"name": "web-0.1"},
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": " 0/3 nodes are available.\n",
    "involvedObject": {"kind": "Pod", "name": "web-0", "fieldPath": "spec.containers{main}"},
    "source": {"component": "default-scheduler", "host": "node-1"},
    "firstTimestamp": "2025-12-31T23:00:00Z",
    "lastTimestamp": "2025-12-31T23:59:00Z",
    "count": 7,
}
NEW: Body = {
    "metadata": {"name": "web-0.2"},
    "eventTime": "2025-12-31T23:58:00.000000Z",
    "reportingComponent": "mooring-scheduler",
    "reportingInstance": "mooring-scheduler-0",
}


def test_a_counted_event() -> None:
    assert row(kinds.EVENT, COUNTED) == {
        "Last Seen": "60s",
        "Type": "Warning",
        "Reason": "FailedScheduling",
        "Object": "pod/web-0",
        "Subobject": "spec.containers{main}",
        "Source": "default-scheduler, node-1",
        "Message": "0/3 nodes are available.",
        "First Seen": "60m",
        "Count": 7,
        "Name": "web-0.1",
    }


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(NEW, ("2m", "2m", 1), id="a new event is its own first and last"),
        pytest.param(
            NEW | {"series": {"count": 4, "lastObservedTime": "2025-12-31T23:59:30.000000Z"}},
            ("30s", "2m", 4),
            id="a series counts",
        ),
        pytest.param({}, ("<unknown>", "<unknown>", 1), id="no times at all"),
        pytest.param({"lastTimestamp": "yesterday"}, ("<unknown>", "<unknown>", 1), id="a time that is none"),
    ],
)
def test_times_and_counts(event: Body, want: tuple[object, ...]) -> None:
    cells = row(kinds.EVENT, event)
    assert (cells["Last Seen"], cells["First Seen"], cells["Count"]) == want


@pytest.mark.parametrize(
    ("event", "want"),
    [
        (NEW, "mooring-scheduler, mooring-scheduler-0"),
        ({"source": {"component": "kubelet"}}, "kubelet"),
        ({}, ""),
    ],
)
def test_sources(event: Body, want: str) -> None:
    assert row(kinds.EVENT, event)["Source"] == want


def test_an_object_without_a_name_is_its_kind() -> None:
    assert row(kinds.EVENT, {"involvedObject": {"kind": "Node"}})["Object"] == "node"
