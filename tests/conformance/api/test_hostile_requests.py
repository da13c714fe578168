"""Hostile requests to kube-apiserver and to ours: equal codes and reasons, except for `KNOWN`.

The families are those that `bench/hostile_requests.py` measures: few bytes that expand to many values, lists that are
compared with themselves, nesting, products, repeated keys, deep managedFields and compressed bodies. Besides, times,
quantities and versions at their limits. A server that closes the connection, or does not respond in time, has no code.
"""

import http.client
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from bench.hostile_requests import APPLY, CONFIGS, JSON, MERGE, PODS, ROLES, SETS, YAML, encoded, managed, named, pod

from bench import hostile_requests
from support.conformance.control_plane import ControlPlane
from support.conformance.server_pair import ApiEndpoint, Request, our_server

EVENTS: Final = "/api/v1/namespaces/default/events"
VOLUMES: Final = "/api/v1/persistentvolumes"
#: Repeated requests whose cost is measured; their responses are those of other families. The last four take
#: kube-apiserver longer than a client's timeout, even at a fiftieth of their size.
MEASURED_ONLY: Final = frozenset(
    {
        "JSON: large, sixteen at once",
        "YAML: sixteen at once",
        "tables of large lists",
        "deletion of a collection",
        "protobuf: empty messages",
        "quantities",
        "roles: four wide lists",
        "roles: four lists of thousands",
    }
)

#: At full length some take kube-apiserver longer than a client's timeout.
DIVISOR: Final = 50

#: Families with different responses, and the reasons.
KNOWN: Final[dict[str, str]] = {
    "YAML: aliases of a text": "they write the text out as often as it is named; ours is bounded",
    "YAML: a key again and again": "they warn and take the last of them",
    "YAML: large and plain": "the name is y, which YAML 1.1 and they take for a boolean",
    "JSON: brackets": "ours counts values before it reads them",
    "JSON: lists 900 deep": "they skip what is in unknown fields; ours bounds nesting everywhere",
    "YAML: a priority of 0o17": "their reader knows octal numbers of YAML 1.2; ours is of YAML 1.1",
    "YAML: a priority of 1e3": "their reader takes it for a number; in YAML 1.1 that needs a dot",
    "managedFields: deep": "ours bounds the depth of paths",
    "managedFields 900 deep": "ours bounds nesting",
    "strategic patch: retained keys": "they take $retainKeys for an annotation in a map",
    "apply: repeated keys": "500 and the same text; ours is 400",
    "percentages: five thousand digits": "ours bounds a percentage",
    "a deletion in 9223372036854775807 s": "ours takes fewer digits in the query",
    "a deletion in -9223372036854775808 s": "ours takes fewer digits in the query",
    "gzip: three hundred megabytes": "they do not unpack bodies; ours does, up to the bound",
}

#: Code and reason of a response; the reason is "" if the body is not a Status.
Verdict = tuple[int, str]


def sent(label: str, method: str, path: str, body: bytes, kind: str = JSON, **headers: str) -> Request:
    return Request(label, method, path, raw=body, headers={"Content-Type": kind, **headers})


def event(**members: Any) -> bytes:  # noqa: ANN401
    return encoded({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, **members})


def volume(driver: str) -> bytes:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    return encoded({"metadata": {"name": "v"}, "spec": spec | {"csi": {"driver": driver, "volumeHandle": "h"}}})


def edges() -> Iterator[Request]:
    """Each is one request, or two with one label that follow each other."""
    for seconds in (300_000_000_000, 2**63 - 1, 2**63, -(2**63)):
        label = f"a grace period of {seconds} s"
        yield sent(label, "POST", PODS, encoded(pod("g", terminationGracePeriodSeconds=seconds)))
        yield sent(label, "DELETE", f"{PODS}/g", b"{}")
        yield sent(f"a deletion in {seconds} s", "POST", PODS, encoded(pod("g")))
        yield sent(f"a deletion in {seconds} s", "DELETE", f"{PODS}/g?gracePeriodSeconds={seconds}", b"")
    for moment in ("0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00"):
        yield sent(f"an event at {moment}", "POST", EVENTS, event(firstTimestamp=moment))
        yield sent(f"an event of {moment}", "POST", EVENTS, event(lastTimestamp=moment, count=2**31 - 1))
    for number in ("0x10", "0o17", "0b1", "1_000", "1e3", "190:20:30", ".inf", "9" * 30):
        text = f"metadata: {{name: a}}\nspec: {{containers: [{{name: c, image: i}}], priority: {number}}}"
        yield sent(f"YAML: a priority of {number}", "POST", f"{PODS}?dryRun=All", text.encode(), YAML)
    for version in ("0", "00", "-1", "x", "9" * 30):
        claimed = named("c") | {"metadata": {"name": "c", "resourceVersion": version}}
        yield sent(f"a create of version {version}", "POST", CONFIGS, encoded(claimed))
    for driver in ("../../../tmp/x", "a/b", "A" * 64, "-", ""):
        yield sent(f"a volume of the driver {driver!r:.20}", "POST", VOLUMES, volume(driver))
    for depth in (5, 60, 900):
        fields: dict[str, Any] = {}
        for _ in range(depth):
            fields = {"f:x": fields}
        body = named("m") | {"metadata": {"name": "m", "managedFields": managed(fields)}}
        yield sent(f"managedFields {depth} deep", "POST", CONFIGS, encoded(body))
    yield sent("a name by selector", "POST", f"{CONFIGS}?fieldSelector=metadata.name=x", encoded(named("other")))
    yield sent("a merge patch of nothing", "PATCH", f"{CONFIGS}/none", b"{}", MERGE)
    yield sent("an apply of nothing", "PATCH", f"{CONFIGS}/none?fieldManager=m", b"", APPLY)


def families() -> dict[str, list[Request]]:
    found = {
        name: [
            Request(name, one.method, one.path, raw=one.body, headers={"Content-Type": one.content_type} | one.headers)
            for one in requests()
        ]
        for name, requests in hostile_requests.families(DIVISOR).items()
        if name not in MEASURED_ONLY
    }
    for request in edges():
        found.setdefault(request.label, []).append(request)
    return found


FAMILIES: Final = families()


@pytest.fixture
def servers(
    start_kube: Callable[[], ControlPlane],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[ApiEndpoint, ApiEndpoint]]:
    """kube-apiserver and ours."""
    kube = start_kube()
    # They send a warning header for each repeated or unknown field.
    monkeypatch.setattr(http.client, "_MAXHEADERS", 100_000)
    with our_server(tmp_path_factory.mktemp("ours")) as ours:
        both = ApiEndpoint(kube.kubeconfig), ours
        for server in both:
            server.send(Request("", "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}))
        yield both


def verdicts(server: ApiEndpoint, requests: list[Request]) -> list[Verdict]:
    """Each family is independent of the others."""
    found: list[Verdict] = []
    for request in requests:
        try:
            received = server.send(request)
        except (OSError, http.client.HTTPException):
            found.append((0, ""))
            continue
        is_status = isinstance(received.body, dict) and received.body.get("kind") == "Status"
        found.append((received.code, received.body.get("reason", "") if is_status else ""))
    for path in {*(request.path.partition("?")[0] for request in requests if request.method == "POST")}:
        if path in (CONFIGS, PODS, ROLES, SETS, EVENTS, VOLUMES):
            server.send(Request("", "DELETE", f"{path}?gracePeriodSeconds=0"))
    return found


def test_hostile_request_responses_are_equal(servers: tuple[ApiEndpoint, ApiEndpoint]) -> None:
    """One test for all, so that it also checks that every known difference still exists."""
    theirs, ours = servers
    different: dict[str, tuple[list[Verdict], list[Verdict]]] = {}
    for name, requests in FAMILIES.items():
        answers = verdicts(theirs, requests), verdicts(ours, requests)
        assert all(code != 500 for code, _ in answers[1]), (name, answers)
        if answers[0] != answers[1]:
            different[name] = answers
    assert {name: answers for name, answers in different.items() if name not in KNOWN} == {}
    assert KNOWN.keys() - different.keys() == set(), "these are answered alike by now"
    assert theirs.send(Request("", "GET", "/livez")).code == ours.send(Request("", "GET", "/livez")).code == 200
