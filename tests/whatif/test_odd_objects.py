"""Whatever a file says: it is refused with a sentence, or the question is answered; nothing falls over."""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.whatif.inventory import BadQuestion
from support.builders import Body, pod_body
from support.whatif.questions import (
    asked,
    local_set,
    nodes,
    pool,
    provisioned_class,
    replica_set,
    running,
    stateful_set,
)

Path = tuple[str | int, ...]


def listed(body: Body) -> Body:
    """As a server lists it, so that it is taken as it is."""
    body = copy.deepcopy(body)
    body["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    return body


def new(body: Body) -> Body:
    return {field: value for field, value in body.items() if field != "status"}


OWNER = replica_set(replicas=1, uid="web-uid")
CLUSTER: list[Body] = [
    *nodes(2),
    *provisioned_class(),
    pool("n1", "5Gi"),
    *map(listed, local_set("n1")),
    listed(OWNER),
    listed(running("web-a", node="n1", owner=OWNER)),
    stateful_set("new"),
    new(pod_body(name="alone", claims=["data-db-0"])),
]
ODD = ["", "x" * 300, "-5Gi", "1e99", "NaN", "Nonsense", " 1 ", 0, -1, 2**31, 1e30, float("nan"), True, None, [], {}]
#: Without these there is no object to speak of.
KEPT: set[Path] = {("kind",), ("apiVersion",), ("metadata",), ("metadata", "name")}


def paths(value: Any, at: Path = ()) -> Iterator[Path]:  # noqa: ANN401  JSON of any shape
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if (*at, key) not in KEPT:
            yield (*at, key)
        yield from paths(part, (*at, key))


SPOTS = [(number, path) for number, body in enumerate(CLUSTER) for path in paths(body)]


def answered(documents: list[Body]) -> str:
    try:
        return msgspec.json.encode(asked(*documents, drain=["n1"])).decode()
    except BadQuestion as refusal:
        return str(refusal)


@settings(max_examples=60)
@given(spot=st.sampled_from(SPOTS), odd=st.sampled_from(ODD))
def test_an_odd_value_is_refused_or_answered(spot: tuple[int, Path], odd: object) -> None:
    number, path = spot
    documents = copy.deepcopy(CLUSTER)
    part: Any = documents[number]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = copy.deepcopy(odd)
    said = answered(documents)
    assert said
    assert "\n" not in said
