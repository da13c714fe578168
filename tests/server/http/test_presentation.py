"""The forms objects are shown in."""

import random
from typing import Any

import msgspec
import pytest

from mooring.api import kinds
from mooring.api.errors import BadRequest
from mooring.api.views import meta
from mooring.server.contract import Page
from mooring.server.http.presentation import Presenter, presenter_for
from mooring.server.http.responses import Form
from support.server.stub_api import CONFIG, RAW, StoppedClock

PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": CONFIG["metadata"]}


def presenter(form: Form, include: str = "") -> Presenter:
    return presenter_for(form, kinds.CONFIG_MAP, include=include, clock=StoppedClock())


def shown(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_plain_lists_are_the_stored_bytes(count: int) -> None:
    raw = presenter(Form.PLAIN).page(Page((RAW,) * count, "9"))
    assert shown(raw) == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9"},
        "items": [CONFIG] * count,
    }
    assert raw.count(RAW) == count


def test_metadata_of_one() -> None:
    assert shown(presenter(Form.METADATA).one(RAW)) == PARTIAL


def test_metadata_of_many() -> None:
    assert shown(presenter(Form.METADATA).page(Page((RAW, RAW), "9"))) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9"},
        "items": [PARTIAL, PARTIAL],
    }


def test_a_table_of_many() -> None:
    table = shown(presenter(Form.TABLE).page(Page((RAW,), "9")))
    assert {key: table[key] for key in ("kind", "apiVersion", "metadata")} == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9"},
    }
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert set(table["columnDefinitions"][0]) == {"name", "type", "format", "description", "priority"}
    assert table["rows"] == [{"cells": ["a", 1, "60s"], "object": PARTIAL}]


def test_a_table_of_none() -> None:
    table = shown(presenter(Form.TABLE).page(Page((), "9")))
    assert (table["rows"], len(table["columnDefinitions"])) == ([], 3)


def test_a_table_of_one_has_the_version_of_the_object() -> None:
    assert shown(presenter(Form.TABLE).one(RAW))["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize(
    ("include", "want"),
    [
        pytest.param("None", None, id="nothing"),
        pytest.param("Metadata", PARTIAL, id="metadata"),
        pytest.param("Object", CONFIG, id="everything"),
    ],
)
def test_how_much_of_the_object_comes_with_its_row(include: str, want: object) -> None:
    [row] = shown(presenter(Form.TABLE, include).one(RAW))["rows"]
    assert row["object"] == want


def test_an_unknown_amount_is_refused() -> None:
    with pytest.raises(BadRequest, match='unrecognized includeObject value: "All"'):
        presenter(Form.TABLE, "All")


def test_columns_are_described_once() -> None:
    tables = presenter(Form.TABLE)
    first, second = shown(tables.one(RAW)), shown(tables.one(RAW))
    assert first["columnDefinitions"]
    assert second["columnDefinitions"] is None
    assert second["rows"] == first["rows"]


def test_finished_pods_carry_a_condition() -> None:
    raw = msgspec.json.encode({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}})
    tables = presenter_for(Form.TABLE, kinds.POD, include="", clock=StoppedClock())
    [row] = shown(tables.one(raw))["rows"]
    assert [(found["type"], found["status"]) for found in row["conditions"]] == [("Completed", "True")]


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.plural)
def test_no_object_is_too_odd_for_its_table(kind: kinds.Kind[meta.ApiObject]) -> None:
    """Wrong types anywhere read as absent: one object must not cost the whole list."""
    rng = random.Random(kind.plural)
    odd: list[object] = [None, 5, "x", [], [1], {}, {"name": 3}]
    fields = (
        "metadata", "spec", "status", "data", "type", "series", "involvedObject", "conditions", "containers",
        "containerStatuses", "initContainers", "initContainerStatuses", "state", "lastState", "terminated", "template",
        "addresses", "labels", "annotations", "ports", "capacity", "accessModes", "claimRef", "creationTimestamp",
    )  # fmt: skip

    def anything(depth: int) -> object:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(odd)
        if rng.random() < 0.3:
            return [anything(depth - 1) for _ in range(2)]
        return {field: anything(depth - 1) for field in rng.sample(fields, 8)}

    tables = presenter_for(Form.TABLE, kind, include="", clock=StoppedClock())
    for _ in range(5):
        value = {field: anything(3) for field in fields}
        assert len(shown(tables.one(msgspec.json.encode(value)))["rows"]) == 1


@pytest.mark.parametrize("form", list(Form), ids=lambda form: form.name)
def test_a_page_says_what_comes_after_it(form: Form) -> None:
    metadata = shown(presenter(form).page(Page((RAW,), "9", "more", 3)))["metadata"]
    assert metadata == {"resourceVersion": "9", "continue": "more", "remainingItemCount": 3}
    assert shown(presenter(form).page(Page((RAW,), "9", "more")))["metadata"].keys() == {"resourceVersion", "continue"}
