"""Query parameters and DeleteOptions bodies."""

from typing import Any

import pytest
from multidict import MultiDict

from mooring.api.errors import ApiError, BadRequest, Invalid
from mooring.server.contract import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from mooring.server.http.requests import Verb, delete_options, flag, list_options, number, watch_options, write_options

NO_QUERY: MultiDict[str] = MultiDict()


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, False, id="absent"),
        pytest.param({"watch": "0"}, False, id="zero"),
        pytest.param({"watch": "false"}, False, id="false"),
        pytest.param({"watch": "FALSE"}, False, id="false in capitals"),
        pytest.param({"watch": ""}, True, id="present and empty"),
        pytest.param({"watch": "1"}, True, id="one"),
        pytest.param({"watch": "True"}, True, id="Python's true"),
        pytest.param({"watch": "foo"}, True, id="any word"),
    ],
)
def test_flags(given: dict[str, str], want: bool) -> None:
    assert flag(MultiDict(given), "watch") is want


@pytest.mark.parametrize(
    ("text", "want"),
    [("", None), ("0", 0), ("500", 500), ("-1", -1), ("+5", 5)],
)
def test_numbers(text: str, want: int | None) -> None:
    assert number(MultiDict({"limit": text}), "limit") == want


@pytest.mark.parametrize("text", ["abc", "1.5", "1_000", "٣", " 1", "9" * 30])
def test_what_is_not_a_number_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        number(MultiDict({"limit": text}), "limit")


def test_list_options_are_read() -> None:
    query = MultiDict(
        {
            "labelSelector": "a=b",
            "fieldSelector": "metadata.name=x",
            "resourceVersion": "5",
            "resourceVersionMatch": "Exact",
            "limit": "500",
            "continue": "abc",
            "timeout": "30s",
        }
    )
    assert list_options(query) == ListOptions("a=b", "metadata.name=x", "5", "Exact", 500, "abc")
    assert list_options(NO_QUERY) == ListOptions()


def test_initial_events_are_forbidden_for_lists() -> None:
    with pytest.raises(Invalid) as refused:
        list_options(MultiDict(sendInitialEvents="true"))
    assert refused.value.message == (
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list'
    )


def test_watch_options_are_read() -> None:
    query = MultiDict(
        labelSelector="a=b",
        fieldSelector="metadata.name=x",
        resourceVersion="5",
        resourceVersionMatch="NotOlderThan",
        sendInitialEvents="true",
        allowWatchBookmarks="true",
    )
    assert watch_options(query) == WatchOptions("a=b", "metadata.name=x", "5", "NotOlderThan", True, True, 60)
    assert watch_options(NO_QUERY).send_initial_events is None
    assert watch_options(MultiDict(sendInitialEvents="false")).send_initial_events is False


def test_write_options_are_read() -> None:
    query = MultiDict(dryRun="All", fieldValidation="Strict", fieldManager="me")
    assert write_options(query, Verb.CREATE, "kubectl/v1.32") == WriteOptions(True, "Strict", "me")


def test_write_options_have_defaults() -> None:
    assert write_options(NO_QUERY, Verb.CREATE, "kubectl/v1.32") == WriteOptions(False, "Warn", "kubectl")
    assert len(write_options(NO_QUERY, Verb.CREATE, "x" * 500).field_manager) == 128
    assert len(write_options(NO_QUERY, Verb.CREATE, "é" * 500).field_manager) == 64
    assert write_options(NO_QUERY, Verb.CREATE, "a\udcffb\tc").field_manager == "abc"


@pytest.mark.parametrize(
    ("query", "verb", "want"),
    [
        pytest.param(
            {"dryRun": "Some"},
            Verb.CREATE,
            'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
            id="dry run of some kind",
        ),
        pytest.param(
            {"fieldValidation": "Lax"},
            Verb.UPDATE,
            'UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Lax": '
            'supported values: "", "Ignore", "Strict", "Warn"',
            id="unknown validation",
        ),
        pytest.param(
            {"fieldManager": "m" * 129},
            Verb.PATCH,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
            id="long manager",
        ),
        pytest.param(
            {"fieldManager": "a\x07"},
            Verb.CREATE,
            'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\\a": '
            "should only contain printable characters",
            id="unprintable manager",
        ),
        pytest.param(
            {"force": "true"},
            Verb.PATCH,
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
            id="force without apply",
        ),
    ],
)
def test_impossible_write_options_are_invalid(query: dict[str, str], verb: Verb, want: str) -> None:
    with pytest.raises(Invalid) as refused:
        write_options(MultiDict(query), verb, "")
    assert refused.value.message == want


@pytest.mark.parametrize(
    ("query", "body", "want"),
    [
        pytest.param({}, None, DeleteOptions(), id="nothing said"),
        pytest.param(
            {"gracePeriodSeconds": "0", "propagationPolicy": "Orphan", "dryRun": "All"},
            None,
            DeleteOptions(grace_seconds=0, propagation="Orphan", dry_run=True),
            id="in the query",
        ),
        pytest.param(
            {},
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 5,
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": "u", "resourceVersion": "3"},
                "dryRun": ["All"],
            },
            DeleteOptions(5, "Foreground", "u", "3", True),
            id="in the body",
        ),
        pytest.param({"gracePeriodSeconds": "9"}, {}, DeleteOptions(), id="a body hides the query"),
        pytest.param({}, {"preconditions": {"uid": None}}, DeleteOptions(), id="nulls are absent"),
        pytest.param({"orphanDependents": "true"}, None, DeleteOptions(propagation="Orphan"), id="old word for orphan"),
        pytest.param({}, {"orphanDependents": False}, DeleteOptions(propagation="Background"), id="and for background"),
    ],
)
def test_delete_options(query: dict[str, str], body: dict[str, Any] | None, want: DeleteOptions) -> None:
    assert delete_options(MultiDict(query), body) == want


@pytest.mark.parametrize(
    ("query", "body", "error", "want"),
    [
        pytest.param({"gracePeriodSeconds": "x"}, None, BadRequest, "strconv.ParseInt: parsing", id="grace in words"),
        pytest.param({}, {"gracePeriodSeconds": "5"}, BadRequest, "must be DeleteOptions", id="ill-typed body"),
        pytest.param({}, {"kind": "Pod"}, BadRequest, 'not "Pod"', id="another kind"),
        pytest.param({"dryRun": "x"}, None, Invalid, r'dryRun: Unsupported value: \["x"\]', id="dry run of some kind"),
        pytest.param(
            {"propagationPolicy": "Foo"}, None, Invalid, 'propagationPolicy: Unsupported value: "Foo"', id="policy"
        ),
        pytest.param(
            {},
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            Invalid,
            "cannot be both set",
            id="said twice",
        ),
    ],
)
def test_refused_delete_options(
    query: dict[str, str], body: dict[str, Any] | None, error: type[ApiError], want: str
) -> None:
    with pytest.raises(error, match=want):
        delete_options(MultiDict(query), body)
