"""Whatever a parser of requests is given, it answers or refuses in its own words; anything else is a bug."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict, MultiDict

from mooring.api import selectors
from mooring.api.errors import ApiError
from mooring.api.schema.protobuf import MAGIC
from mooring.server.auth.access import requested_user
from mooring.server.http.bodies import decode_applied, decode_object, decode_patch
from mooring.server.http.requests import (
    Verb,
    delete_options,
    list_options,
    resolve,
    segments,
    verb_of,
    watch_options,
    write_options,
)
from mooring.server.http.responses import negotiate, wants_aggregated

MANY = settings(max_examples=300)

_SELECTOR_TEXT = st.one_of(
    st.text(max_size=40), st.text(alphabet="abin not=!<>(),. \\\t", max_size=40), st.from_regex(r"[a-z]+ in \([^)]*\)?")
)
_PATH = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            ["api", "apis", "v1", "apps", "namespaces", "pods", "nodes", "x", "", "..", "%2f", "status", "%"]
        )
    ).map(lambda parts: "/".join(["", *parts])),
)
_QUERY = st.dictionaries(
    st.sampled_from(
        [
            "limit",
            "watch",
            "dryRun",
            "fieldValidation",
            "fieldManager",
            "force",
            "gracePeriodSeconds",
            "propagationPolicy",
        ]
    ),
    st.text(max_size=20),
).map(MultiDict)
_JSONISH = st.one_of(
    st.binary(max_size=80),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ).map(lambda value: repr(value).replace("'", '"').encode(errors="ignore")),
)


@MANY
@given(text=_SELECTOR_TEXT)
def test_selectors(text: str) -> None:
    with contextlib.suppress(selectors.SelectorError):
        str(selectors.parse_label_selector(text))
    with contextlib.suppress(selectors.FieldSelectorError):
        selector = selectors.parse_field_selector(text)
        assert selectors.parse_field_selector(str(selector)) == selector


@MANY
@given(path=_PATH, method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "FOO"]), watching=st.booleans())
def test_paths(path: str, method: str, watching: bool) -> None:
    with contextlib.suppress(ApiError):
        target = resolve(segments(path))
        if target is not None:
            verb_of(method, target, watching=watching)


@MANY
@given(accept=st.one_of(st.text(max_size=60), st.text(alphabet="application/json;=,*q.0asTbleg v1", max_size=80)))
def test_accept_headers(accept: str) -> None:
    for read in (negotiate, wants_aggregated):
        with contextlib.suppress(ApiError):
            read(accept)


@MANY
@given(query=_QUERY, agent=st.text(max_size=30), verb=st.sampled_from([Verb.CREATE, Verb.UPDATE, Verb.PATCH]))
def test_queries(query: MultiDict[str], agent: str, verb: Verb) -> None:
    for read in (
        lambda: list_options(query),
        lambda: watch_options(query),
        lambda: write_options(query, verb, agent),
        lambda: delete_options(query, None),
    ):
        with contextlib.suppress(ApiError):
            read()


@MANY
@given(
    raw=_JSONISH,
    media_type=st.sampled_from(
        ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "", "x/y"]
    ),
    sealed=st.booleans(),
)
def test_bodies(raw: bytes, media_type: str, sealed: bool) -> None:
    with contextlib.suppress(ApiError):
        decode_object(MAGIC + raw if sealed else raw, media_type)
    with contextlib.suppress(ApiError):
        decode_applied(raw)


@MANY
@given(raw=_JSONISH, media_type=st.sampled_from(["json-patch+json", "merge-patch+json", "strategic-merge-patch+json"]))
def test_patches(raw: bytes, media_type: str) -> None:
    with contextlib.suppress(ApiError):
        decode_patch(raw, f"application/{media_type}")


@MANY
@given(
    pairs=st.lists(
        st.tuples(
            st.sampled_from(
                ["Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-%2f%zz", "X"]
            ),
            st.text(max_size=30),
        ),
        max_size=5,
    )
)
def test_impersonation(pairs: list[tuple[str, str]]) -> None:
    with contextlib.suppress(ApiError):
        requested_user(CIMultiDict(pairs))
