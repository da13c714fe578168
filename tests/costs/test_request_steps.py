"""Cost of the steps of a request, in function calls: at most proportional to the request, whatever its contents.

Every list and map of every kind is made long, once with different items and once with equal ones, and passes normal
form, defaults, admission and validation; every form of patch, selectors, owners and formats have generators of their
own. Sizes are doubled and calls compared, comparisons of text included. No test here measures time.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.api import documents, names, selectors
from mooring.api.documents import MAX_ALIASED, MalformedYaml, single_yaml_document
from mooring.api.errors import ApiError, Invalid, TooLarge
from mooring.api.kinds import CONFIG_MAP, KINDS, POD, Kind
from mooring.api.managed_fields import (
    APPLY,
    MAX_ELEMENTS,
    UPDATE,
    Manager,
    apply_fields,
    from_fields_v1,
    owners_in,
    to_fields_v1,
    update_fields,
    with_ancestors,
)
from mooring.api.patches.contract import MergePatch, apply_merge_patch
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.patches.strategic import apply_strategic
from mooring.api.schema.checks import unknown_fields, wrong_types
from mooring.api.schema.types import type_of
from mooring.server.admission import chain
from mooring.server.admission.chain import require_namespace
from mooring.server.auth.authorizer import Security
from mooring.server.auth.policy import rule
from mooring.server.contract import User
from mooring.server.decoding import canonical_form
from mooring.server.environment import AdmissionRequest, RequestContext, Step
from mooring.server.http.bodies import decode_applied, decode_object
from mooring.server.http.handler import duplicate_fields
from mooring.server.kinds.registry import require_valid, require_valid_update, rules_of
from mooring.server.objects import MAX_OBJECT_BYTES, Objects
from mooring.server.selection import Selection
from support.builders import pod_body
from support.builders.counting import calls_of, counted
from support.growing_inputs import CountedText, Path, grown, growth, is_linear, long_fields, named, plain
from support.protobuf_encoder import envelope
from support.server.harness import Harness
from support.server.policies import Policy

NOW = "2026-01-02T03:04:05Z"
COUNT = 100


def every_long_field() -> list[tuple[Kind[Any], Path]]:
    """Types that several kinds share, such as a pod's spec, are covered once, in the first kind."""
    seen: set[str] = set()
    return [
        (kind, path)
        for kind in sorted(KINDS, key=lambda kind: kind is not POD)
        for path in long_fields(type_of(kind.api_version, kind.kind), seen)
    ]


FIELDS = every_long_field()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgspec does not encode counted text; here it encodes cached valid specs and messages only."""
    monkeypatch.setattr("mooring.server.kinds.pod_spec.ValidPodSpecCache.key", lambda *_: b"")
    monkeypatch.setattr("mooring.server.kinds.pod_spec.ValidPodSpecCache.add", lambda *_: None)
    monkeypatch.setattr("mooring.api.errors._quoted", lambda value: "a value")


def objects_of(kind: Kind[Any], path: Path, count: int, *, alike: bool, backwards: bool) -> dict[str, Any]:
    obj = grown(path, count, alike=alike, backwards=backwards)
    metadata = obj.setdefault("metadata", {})
    metadata.update(name="x", namespace="default", deletionTimestamp=NOW, deletionGracePeriodSeconds=0)
    normal, _ = canonical_form(type_of(kind.api_version, kind.kind), obj)
    return normal


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("alike", [False, True], ids=["different", "alike"])
def test_normal_form_defaults_and_validation_of_every_list_and_map(alike: bool) -> None:
    wrong: list[str] = []
    for kind, path in FIELDS:
        type_ = type_of(kind.api_version, kind.kind)

        def steps(count: int, kind: Kind[Any] = kind, path: Path = path, type_: Any = type_) -> int:  # noqa: ANN401
            # The same items in another order, so that an update is one and each is looked for.
            old, new = (objects_of(kind, path, count, alike=alike, backwards=old) for old in (True, False))

            def work() -> None:
                obj, _ = canonical_form(type_, new)
                rules_of(kind).defaults(obj)
                for check in (
                    lambda: require_valid(kind, obj),
                    lambda: require_valid_update(kind, obj, old, ""),
                    lambda: require_valid_update(kind, obj, old, "status"),
                ):
                    with suppress(Invalid):
                        check()

            rules_of(kind).defaults(old)
            return calls_of(work)

        few, many = steps(COUNT), steps(2 * COUNT)
        if not is_linear(few, many):
            wrong.append(f"{kind.kind} {named(path)}: {few} calls for {COUNT}, {many} for {2 * COUNT}")
    assert wrong == []
    assert len(FIELDS) > 200


@pytest.fixture
def plain_for_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views contain plain text."""
    encode, convert = msgspec.json.encode, msgspec.convert
    monkeypatch.setattr("msgspec.json.encode", lambda value: encode(plain(value)))
    monkeypatch.setattr("msgspec.convert", lambda value, type_: convert(plain(value), type_))


def admission_of(kind: Kind[Any], old: dict[str, Any] | None) -> tuple[Step, ...]:
    """All steps of a write of the kind, whether or not one of them rejects it."""
    if old is None:
        return (require_namespace, *chain._CREATE.get(kind, ()))
    return (*chain._UPDATE.get(kind, ()), *chain._VALID_UPDATE.get(kind, ()))


@pytest.mark.usefixtures("bare", "plain_for_msgspec")
@pytest.mark.parametrize("alike", [False, True], ids=["different", "alike"])
async def test_admission_of_every_list_and_map_of_every_kind(alike: bool) -> None:
    """As a user who may write roles and has some of the rights in them, so that rules are compared."""
    server = await Harness().start()
    policy = Policy(defaults=False)
    policy.grant("carol", rule("get list", "a000001 a000002", "a000001"))
    environment = RequestContext(
        Objects(server.store), server.clock, random.Random(1), Security(policy), User("carol"), claim_rollback=True
    )
    wrong: list[str] = []
    steps = 0
    for kind in KINDS:
        for path in long_fields(type_of(kind.api_version, kind.kind), set()):
            counts: list[int] = []
            for count in (COUNT, 2 * COUNT):
                old, new = (objects_of(kind, path, count, alike=alike, backwards=old) for old in (True, False))
                calls = 0
                for before in (None, old):
                    for obj in filter(None, (before, new)):
                        rules_of(kind).defaults(obj)
                    for step in admission_of(kind, before):
                        review = AdmissionRequest(kind, "default" if kind.namespaced else "", new, environment, before)
                        with counted() as counter, suppress(ApiError):
                            await step(review)
                        calls += counter.calls
                        steps += 1
                counts.append(calls)
            if not is_linear(*counts):
                wrong.append(f"{kind.kind} {named(path)}: {counts[0]} calls for {COUNT}, {counts[1]} for {2 * COUNT}")
    assert wrong == []
    assert steps > 2000


@pytest.mark.parametrize("body", ["wrong types", "unknown fields"])
def test_validation_stops_after_enough_errors(body: str) -> None:
    def work(count: int) -> object:
        if body == "wrong types":
            return next(wrong_types("v1", "ConfigMap", {"data": dict.fromkeys(map(str, range(count)), 1)}))
        return unknown_fields("v1", "ConfigMap", dict.fromkeys(map(str, range(count)), 1))

    few, many = growth(work, 5000)
    assert many < few + 50


# Formats.

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab:,[]{}"\\', max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("ab", max_size=2), below, max_size=3),
    max_leaves=6,
)


@settings(max_examples=20)
@given(VALUES, st.sampled_from(["list", "map", "again", "twice"]))
@example(1, "twice")
def test_json_is_read_in_proportion_to_its_bytes(value: object, shape: str) -> None:
    item = msgspec.json.encode(value).decode()

    def raw(count: int) -> bytes:
        if shape == "list":
            return f'{{"a":[{",".join([item] * count)}]}}'.encode()
        different = {"again": 1, "twice": count // 2}.get(shape, count)
        keys = (f"k{number % different}" for number in range(count))
        return ("{" + ",".join(f'"{key}":{item}' for key in keys) + "}").encode()

    def work(count: int) -> object:
        body = raw(count)
        return duplicate_fields(body, decode_object(body, "application/json"))

    assert is_linear(*growth(work, 200))


def test_duplicate_fields_are_named_up_to_a_bound() -> None:
    """The path of a field may be a thousand times as long as the field."""

    def work(count: int) -> object:
        body = ("{" + ",".join([f'"k{number % 2000}":1' for number in range(count)]) + "}").encode()
        return duplicate_fields(body, {})

    few, many = growth(work, 5000)
    assert many < few + 50


parse = yaml.parse


def counted_events(*arguments: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    """The parser's events, with text that counts its comparisons."""
    for event in parse(*arguments, **options):
        if isinstance(event, yaml.ScalarEvent):
            event.value = CountedText(event.value)
        yield event


@settings(max_examples=20)
@given(VALUES, st.sampled_from(["list", "map", "again", "flow"]))
def test_yaml_is_read_in_proportion_to_its_bytes(value: object, shape: str) -> None:
    item = msgspec.json.encode(value).decode()

    def raw(count: int) -> bytes:
        if shape == "flow":
            return f"[{', '.join([item] * count)}]".encode()
        keys = ("k" if shape == "again" else f"k{number}" for number in range(count))
        return "".join(f"- {item}\n" if shape == "list" else f"{key}: {item}\n" for key in keys).encode()

    def work(count: int) -> None:
        with suppress(ApiError):
            decode_applied(raw(count))

    with mock.patch.object(yaml, "parse", counted_events):
        assert is_linear(*growth(work, 100))


@st.composite
def tangled(draw: st.DrawFn) -> bytes:
    """Anchors, with aliases and merge keys of earlier ones: each line may repeat the contents of all others."""
    lines = ["a0: &a0 {k: " + "x" * draw(st.integers(1, 50)) + "}"]
    for number in range(1, draw(st.integers(2, 60))):
        repeated = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=12))
        aliases = ", ".join(f"*a{which}" for which in repeated)
        form = draw(st.sampled_from(["[{}]", "{{<<: [{}]}}", "{{m: [{}]}}"]))
        lines.append(f"a{number}: &a{number} {form.format(aliases)}")
    return "\n".join(lines).encode()


#: A thousand keys merged five hundred times, ten lists in ten lists six times over, a long text again and again.
MERGED = b"a: &a {" + b", ".join(b"k%d: x" % number for number in range(1000)) + b"}\nb:\n" + b"- {<<: *a}\n" * 500
NESTED = "\n".join(["a0: &a0 [x, x, x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 10}]" for n in range(1, 7))]).encode()
REPEATED = b"a: &a " + b"x" * 50_000 + b"\nb: [" + b"*a, " * 100 + b"]"


@settings(max_examples=60, deadline=None)
@given(tangled())
@example(MERGED)
@example(NESTED)
@example(REPEATED)
def test_yaml_aliases_and_merge_keys_are_bounded(raw: bytes) -> None:
    made: list[object] = []

    def work() -> None:
        with suppress(MalformedYaml):
            made.append(single_yaml_document(raw))

    assert calls_of(work) < 20 * len(raw) + MAX_ALIASED // 4
    for document in made:
        assert len(msgspec.json.encode(document)) < len(raw) + 2 * MAX_ALIASED


def test_applied_json_is_not_read_as_yaml() -> None:
    """The YAML parser calls Python for every value; the JSON decoder does not."""

    def work(count: int) -> object:
        return decode_applied(msgspec.json.encode({"a": [number for number in range(count)]}))  # noqa: C416

    few, many = growth(work, 5000)
    assert many < few + 50


def test_protobuf_is_read_in_proportion_to_its_bytes() -> None:
    def work(count: int) -> object:
        body = pod_body(name="p")
        body["metadata"]["labels"] = {f"k{number}": "v" for number in range(count)}
        body["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}] * count
        return decode_object(envelope(body), "application/vnd.kubernetes.protobuf")

    assert is_linear(*growth(work, 200))


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        pytest.param(b'{"a":[' + b"[]," * 400_000 + b"[]]}", "application/json", id="JSON"),
        pytest.param(b"a: [" + b"1, " * 400_000 + b"]", "application/yaml", id="YAML"),
        pytest.param(
            b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x80\x92\xf4\x01" + b"\x0a\0" * 2_000_000,
            "application/vnd.kubernetes.protobuf",
            id="protobuf",
        ),
    ],
)
def test_number_of_values_in_a_request_is_bounded(raw: bytes, content_type: str) -> None:
    def work() -> None:
        with pytest.raises(ApiError, match=f"more than {documents.MAX_VALUES} values"):
            decode_object(raw, content_type)

    assert calls_of(work) < 20 * documents.MAX_VALUES


# Patches.


def env(texts: list[str]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "env": [{"name": text, "value": "x"} for text in texts]}]}}


def texts(count: int, offset: int = 0) -> list[str]:
    return [CountedText(f"E{number + offset}") for number in range(count)]


def in_container(**members: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"spec": {"containers": [{"name": "c", **members}]}}


STRATEGIC: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "deletions": lambda n: (
        env(texts(n)),
        in_container(env=[{"name": t, "$patch": "delete"} for t in texts(n, n // 2)]),
    ),
    "changes": lambda n: (env(texts(n)), env(texts(n, n // 2))),
    "order": lambda n: (
        env(texts(n)),
        in_container(**{"$setElementOrder/env": [{"name": t} for t in reversed(texts(n))]}, env=[]),
    ),
    "retained keys": lambda n: (
        {"metadata": {"annotations": dict.fromkeys(texts(n), "")}},
        {"metadata": {"annotations": {"$retainKeys": texts(n), **dict.fromkeys(texts(n), "1")}}},
    ),
    "primitives": lambda n: (
        {"metadata": {"finalizers": texts(n)}},
        {"metadata": {"finalizers": texts(n, n // 2), "$deleteFromPrimitiveList/finalizers": texts(n, n // 3)}},
    ),
    "replacement": lambda n: (
        env(texts(n)),
        in_container(env=[{"$patch": "replace"}, *env(texts(n))["spec"]["containers"]]),
    ),
}


@pytest.mark.parametrize("name", STRATEGIC)
def test_strategic_patches(name: str) -> None:
    def steps(count: int) -> int:
        doc, patch = STRATEGIC[name](count)

        def work() -> None:
            with suppress(ValueError):
                apply_strategic(doc, patch, "v1", "Pod")

        return calls_of(work)

    assert is_linear(steps(100), steps(200))


JSON_PATCH: dict[str, Callable[[int], list[Any]]] = {
    "additions": lambda n: [{"op": "add", "path": f"/data/k{number}", "value": "x"} for number in range(n)],
    "insertions": lambda n: [{"op": "add", "path": "/list/0", "value": "x"}] * n,
    "removals": lambda n: [{"op": "remove", "path": "/list/0"}] * n,
    "moves": lambda n: [{"op": "move", "from": "/list/0", "path": "/list/-"}] * n,
    "tests": lambda n: [{"op": "test", "path": "/data", "value": {"a": "b"}}] * n,
    "copies": lambda n: [{"op": "copy", "from": "/data", "path": f"/c{number}"} for number in range(n)],
}


@pytest.mark.parametrize("name", JSON_PATCH)
def test_json_patches(name: str) -> None:
    def work(count: int) -> object:
        return apply_json_patch({"data": {"a": "b"}, "list": ["x"] * 400}, JSON_PATCH[name](count))

    assert is_linear(*growth(work, 200))


def test_json_patch_copies_are_bounded_in_advance() -> None:
    """Each copy of the root doubles the document, whatever its contents."""
    for first in ([[]] * 50, [{}] * 50, [""] * 50, ["x" * 1000]):
        patch: list[Any] = [{"op": "copy", "from": "", "path": f"/k{number}"} for number in range(40)]

        def work(document: Any = first, patch: list[Any] = patch) -> None:  # noqa: ANN401
            with pytest.raises(ValueError, match="copies more than"):
                apply_json_patch({"a": document}, patch)

        assert calls_of(work) < 1_200_000


def test_merge_patches() -> None:
    def work(count: int) -> object:
        return apply_merge_patch({"data": dict.fromkeys(texts(count), "")}, {"data": dict.fromkeys(texts(count), "1")})

    assert is_linear(*growth(work, 200))


# Owners.


def applied(count: int, value: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": f"E{number}", "value": value} for number in range(count)]}]
        },
    }


@pytest.mark.parametrize("force", [False, True])
def test_applies_and_updates(force: bool) -> None:
    type_ = type_of("v1", "Pod")
    one, other, editor = Manager("m", APPLY, "v1"), Manager("n", APPLY, "v1"), Manager("e", UPDATE, "v1")

    def work(count: int) -> None:
        first = apply_fields({}, applied(count, "1"), type_, {}, one, force=True, now=NOW)
        apply_fields(first.obj, applied(count, "2"), type_, first.owners, other, force=force, now=NOW)
        update_fields(first.obj, applied(count // 2, "3"), type_, first.owners, editor, now=NOW)

    assert is_linear(*growth(work, 100))


def test_named_fields() -> None:
    def work(count: int) -> object:
        fields: dict[str, Any] = {f"f:{number}": {} for number in range(count)}
        for _ in range(MAX_ELEMENTS - 2):
            fields = {"f:x": fields}
        owners_in([{"manager": "m", "operation": "Apply", "fieldsV1": fields}])
        paths = from_fields_v1(fields)
        return to_fields_v1(with_ancestors(paths))

    assert is_linear(*growth(work, 200))
    assert calls_of(lambda: work(200)) < 200 * 10 * MAX_ELEMENTS


def test_ancestors_are_found_once() -> None:
    """Long paths with common prefixes."""
    stem = tuple(f"f:{number}" for number in range(MAX_ELEMENTS))
    few, many = (frozenset((*stem, f"f:{number}") for number in range(count)) for count in (200, 400))
    assert len(with_ancestors(many)) == 400 + MAX_ELEMENTS
    assert calls_of(lambda: with_ancestors(many)) < 2.3 * calls_of(lambda: with_ancestors(few)) < 200 * 5


# Selectors.


def test_selectors_are_read_in_proportion() -> None:
    words = [f"w{number}" for number in range(2000)]
    assert is_linear(*growth(lambda count: selectors.parse_label_selector(f"a in ({','.join(words[:count])})"), 500))
    assert is_linear(
        *growth(lambda count: selectors.parse_label_selector(",".join(f"{word}=x" for word in words[:count])), 500)
    )
    assert is_linear(
        *growth(lambda count: selectors.parse_field_selector(",".join(f"{word}=x" for word in words[:count])), 500)
    )


@pytest.mark.parametrize("operator", ["in", "notin"])
def test_value_lookup_does_not_depend_on_size(operator: str) -> None:
    labels = f"a {operator} ({','.join(f'w{number}' for number in range(1000))})"
    selection = Selection(rules_of(POD).selectable, labels=labels, fields="")
    condition = selection._labels[0]
    assert calls_of(lambda: condition({"a": CountedText("none")})) < 10
    assert selection.admits(b'{"metadata":{"labels":{"a":"w7"}}}') is (operator == "in")
    assert selection.admits(b'{"metadata":{}}') is (operator == "notin")


# What stays.


def test_long_keys_are_not_cached() -> None:
    """A thousand label keys are cached; with three megabytes each they would exhaust memory."""
    before = names._cached_problems.cache_info().currsize
    names.check_qualified_name("k" * 10_000)
    assert names._cached_problems.cache_info().currsize == before


async def test_patches_cannot_grow_an_object_without_bound() -> None:
    server = await Harness().start()
    await server.create(CONFIG_MAP, {"metadata": {"name": "a"}})

    async def grow() -> None:
        for number in range(20):
            labels = {f"k{number}-{place}": "x" * 60 for place in range(2000)}
            await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": labels}}))

    with pytest.raises(TooLarge, match=f"an object may have {MAX_OBJECT_BYTES} bytes"):
        await grow()
