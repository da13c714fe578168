"""What the steps of a request cost, counted in calls: at most in proportion to the request, whatever it is made of.

Every list and map of every kind is made long, once of different items and once of equal ones, and taken through normal
form, defaults and validation; every form of patch, selectors, owners and formats have generators of their own. The
sizes are doubled and calls compared, comparisons of text among them. No test here looks at a clock.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.fields.protobuf_encoder import envelope
from builders import pod_body
from builders.counting import calls_of
from costs.growing import CountedText, Path, grown, growth, is_linear, long_fields, named
from mooring.api import field_selector, json_documents, label_selector, object_names
from mooring.api.errors import ApiError, Invalid, TooLarge
from mooring.api.fields.mismatches import wrong_types
from mooring.api.fields.table import type_of
from mooring.api.fields.unknown import unknown_fields
from mooring.api.kinds import CONFIG_MAP, KINDS, POD, Kind
from mooring.api.ownership.managers import APPLY, UPDATE, Manager, apply, owners_in, update
from mooring.api.ownership.paths import MAX_ELEMENTS, from_fields_v1, to_fields_v1, with_ancestors
from mooring.api.patches.contract import MergePatch
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.patches.merge import apply_merge_patch
from mooring.api.patches.strategic import apply_strategic
from mooring.api.yaml_documents import MAX_ALIASED, MalformedYaml, single_document
from mooring.server.defaulting.table import fill_defaults
from mooring.server.http.bodies import decode_applied, decode_object
from mooring.server.http.duplicate_fields import duplicate_fields
from mooring.server.normal_form import normal_form
from mooring.server.objects import MAX_OBJECT_BYTES
from mooring.server.selection import Selection
from mooring.server.validation.table import require_valid, require_valid_update
from server.harness import Harness

NOW = "2026-01-02T03:04:05Z"
COUNT = 100


def every_long_field() -> list[tuple[Kind[Any], Path]]:
    """Types that several kinds share, such as a pod's spec, are looked into once, in the first of them."""
    seen: set[str] = set()
    return [
        (kind, path)
        for kind in sorted(KINDS, key=lambda kind: kind is not POD)
        for path in long_fields(type_of(kind.api_version, kind.kind), seen)
    ]


FIELDS = every_long_field()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgspec encodes no text of ours; what it is asked to encode here is the memory of sound specs, and messages."""
    monkeypatch.setattr("mooring.server.validation.sound_specs.SoundSpecs.key", lambda *_: b"")
    monkeypatch.setattr("mooring.server.validation.sound_specs.SoundSpecs.add", lambda *_: None)
    monkeypatch.setattr("mooring.api.field_errors._quoted", lambda value: "a value")


def objects_of(kind: Kind[Any], path: Path, count: int, *, alike: bool, backwards: bool) -> dict[str, Any]:
    obj = grown(path, count, alike=alike, backwards=backwards)
    metadata = obj.setdefault("metadata", {})
    metadata.update(name="x", namespace="default", deletionTimestamp=NOW, deletionGracePeriodSeconds=0)
    normal, _ = normal_form(type_of(kind.api_version, kind.kind), obj)
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
                obj, _ = normal_form(type_, new)
                fill_defaults(kind, obj)
                for check in (
                    lambda: require_valid(kind, obj),
                    lambda: require_valid_update(kind, obj, old, ""),
                    lambda: require_valid_update(kind, obj, old, "status"),
                ):
                    with suppress(Invalid):
                        check()

            fill_defaults(kind, old)
            return calls_of(work)

        few, many = steps(COUNT), steps(2 * COUNT)
        if not is_linear(few, many):
            wrong.append(f"{kind.kind} {named(path)}: {few} calls for {COUNT}, {many} for {2 * COUNT}")
    assert wrong == []
    assert len(FIELDS) > 200


@pytest.mark.parametrize("body", ["wrong types", "unknown fields"])
def test_what_is_wrong_is_looked_for_until_enough_is_found(body: str) -> None:
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
@given(VALUES, st.sampled_from(["list", "map", "again"]))
def test_json_is_read_in_proportion_to_its_bytes(value: object, shape: str) -> None:
    item = msgspec.json.encode(value).decode()

    def raw(count: int) -> bytes:
        if shape == "list":
            return f'{{"a":[{",".join([item] * count)}]}}'.encode()
        keys = ("k" if shape == "again" else f"k{number}" for number in range(count))
        return ("{" + ",".join(f'"{key}":{item}' for key in keys) + "}").encode()

    def work(count: int) -> object:
        body = raw(count)
        return duplicate_fields(body, decode_object(body, "application/json"))

    assert is_linear(*growth(work, 200))


parse = yaml.parse


def counted_events(*arguments: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    """The parser's events, with text that counts how often it is compared."""
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
    """Anchors, and aliases and merge keys of those before: each line may repeat all that the others stand for."""
    lines = ["a0: &a0 {k: " + "x" * draw(st.integers(1, 50)) + "}"]
    for number in range(1, draw(st.integers(2, 60))):
        repeated = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=12))
        aliases = ", ".join(f"*a{which}" for which in repeated)
        form = draw(st.sampled_from(["[{}]", "{{<<: [{}]}}", "{{m: [{}]}}"]))
        lines.append(f"a{number}: &a{number} {form.format(aliases)}")
    return "\n".join(lines).encode()


@settings(max_examples=60, deadline=None)
@given(tangled())
def test_aliases_and_merge_keys_cost_what_is_written_and_a_bound(raw: bytes) -> None:
    made: list[object] = []

    def work() -> None:
        with suppress(MalformedYaml):
            made.append(single_document(raw))

    assert calls_of(work) < 20 * len(raw) + MAX_ALIASED // 4
    for document in made:
        assert len(msgspec.json.encode(document)) < len(raw) + 2 * MAX_ALIASED


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
def test_a_request_holds_as_many_values_as_are_read(raw: bytes, content_type: str) -> None:
    def work() -> None:
        with pytest.raises(ApiError, match=f"more than {json_documents.MAX_VALUES} values"):
            decode_object(raw, content_type)

    assert calls_of(work) < 20 * json_documents.MAX_VALUES


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


def test_copies_in_a_json_patch_are_weighed_before_they_are_made() -> None:
    """Each copy of the root doubles the document, of whatever it is made."""
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
        first = apply({}, applied(count, "1"), type_, {}, one, force=True, now=NOW)
        apply(first.obj, applied(count, "2"), type_, first.owners, other, force=force, now=NOW)
        update(first.obj, applied(count // 2, "3"), type_, first.owners, editor, now=NOW)

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
    """Long paths that share their beginnings."""
    stem = tuple(f"f:{number}" for number in range(MAX_ELEMENTS))
    few, many = (frozenset((*stem, f"f:{number}") for number in range(count)) for count in (200, 400))
    assert len(with_ancestors(many)) == 400 + MAX_ELEMENTS
    assert calls_of(lambda: with_ancestors(many)) < 2.3 * calls_of(lambda: with_ancestors(few)) < 200 * 5


# Selectors.


def test_selectors_are_read_in_proportion() -> None:
    words = [f"w{number}" for number in range(2000)]
    assert is_linear(*growth(lambda count: label_selector.parse(f"a in ({','.join(words[:count])})"), 500))
    assert is_linear(*growth(lambda count: label_selector.parse(",".join(f"{word}=x" for word in words[:count])), 500))
    assert is_linear(*growth(lambda count: field_selector.parse(",".join(f"{word}=x" for word in words[:count])), 500))


@pytest.mark.parametrize("operator", ["in", "notin"])
def test_a_value_is_found_among_thousands_at_once(operator: str) -> None:
    labels = f"a {operator} ({','.join(f'w{number}' for number in range(1000))})"
    selection = Selection(POD, labels=labels, fields="")
    condition = selection._labels[0]
    assert calls_of(lambda: condition({"a": CountedText("none")})) < 10
    assert selection.admits(b'{"metadata":{"labels":{"a":"w7"}}}') is (operator == "in")
    assert selection.admits(b'{"metadata":{}}') is (operator == "notin")


# What stays.


def test_long_keys_are_not_remembered() -> None:
    """A thousand label keys are; of three megabytes each they would fill the memory."""
    before = object_names._remembered.cache_info().currsize
    object_names.check_qualified_name("k" * 10_000)
    assert object_names._remembered.cache_info().currsize == before


async def test_patches_cannot_make_an_object_grow_without_end() -> None:
    server = await Harness().start()
    await server.create(CONFIG_MAP, {"metadata": {"name": "a"}})

    async def grow() -> None:
        for number in range(20):
            labels = {f"k{number}-{place}": "x" * 60 for place in range(2000)}
            await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": labels}}))

    with pytest.raises(TooLarge, match=f"an object may have {MAX_OBJECT_BYTES} bytes"):
        await grow()
