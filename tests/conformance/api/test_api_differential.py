"""The same requests to kube-apiserver and to ours: responses are equivalent.

Except for the differences in `KNOWN`, which `docs/differences.md` explains.
"""

import fnmatch
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from mooring.api import kinds
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from support.conformance import api_conversations, api_mistakes, api_requests
from support.conformance.api_requests import NAMESPACE, VALID
from support.conformance.control_plane import ControlPlane
from support.conformance.server_pair import ApiEndpoint, Request, differences, our_server

#: Which requests are answered differently, by their label, and how.
KNOWN: Final = {
    "*: create another kind": "our words",
    "*: create of malformed JSON": "our words",
    "*: create of a list": "our words",
    "*: list with a bad token": "our words",
    "*: patch with an object of operations": "our words",
    "*: patch where a test fails": "we say which",
    "*: patch an unknown field": "we show the patch, they show the whole object",
    "*: patch as plain JSON": "we say what would be taken",
    "*: replace with another uid": "they show the key in etcd",
    "pods: create with an odd quantity*": "our words",
    "secrets: create with data that is no base64": "they say at which byte",
    "leases: create with an odd moment": "they say which part is missing",
    "*: create with a moment after the last year": "they keep it, in five digits that no client reads",
    "events: create with a moment before the first year": "they keep it as one of the year 0",
    "nodes: create with * taint*": "they look for taints in the metadata",
    "deployments: create with less than no grace": "they warn",
    "csinodes: change a driver": "they do not say which",
    "reading: a version of the API that is not there": "a Status, where ours is the text of other unknown paths",
    "subresources: bind another pod": "they show the key in etcd",
    "endpoints: *": "they warn that the kind is deprecated",
    "volumeattributesclasses: *": "their protection finalizer; no controller removes it here",
    "daemonsets: get as *": "their count of templates is not in the metadata",
    "limitranges: *": "we warn that nothing acts on it; they name one that has no name",
    "resourcequotas: create*": "we warn that nothing acts on it",
    "replicationcontrollers: create*": "we warn that nothing acts on it",
    "resourceslices: *": "we warn that nothing acts on it; its own words for an unknown field",
    "deviceclasses: create*": "we warn that nothing acts on it",
    "resourceclaims: create*": "we warn that nothing acts on it",
    "resourceclaimtemplates: create*": "we warn that nothing acts on it",
    "devicetaintrules: create*": "we warn that nothing acts on it",
    "clustertrustbundles: create*": "we warn that nothing acts on it",
    "podcertificaterequests: create*": "we warn that nothing acts on it",
    "storageversionmigrations: create*": "we warn that nothing acts on it",
}


@pytest.fixture(scope="module")
def servers(
    start_kube: Callable[[], ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ApiEndpoint, ApiEndpoint]]:
    """kube-apiserver, new and empty, and ours."""
    kube = start_kube()
    folder: Path = tmp_path_factory.mktemp("ours")
    with our_server(folder) as ours:
        theirs = ApiEndpoint(kube.kubeconfig)
        for server in (theirs, ours):
            server.send(Request("", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
        yield theirs, ours


@pytest.fixture(scope="module")
def label_differences() -> dict[str, set[str]]:
    """The labels of requests with different responses, by conversation."""
    return {}


def is_known(request: Request) -> bool:
    return any(fnmatch.fnmatchcase(request.label, pattern) for pattern in KNOWN)


def requests_about(kind: Kind[ApiObject]) -> Iterator[Request]:
    yield from api_requests.life(kind)
    yield from api_mistakes.mistakes(kind)
    yield from api_requests.changes(kind)
    for name in "am":
        no_finalizers = {"metadata": {"finalizers": None}}
        yield Request(
            f"{kind.plural}: let go", "PATCH", api_requests.place(kind, name), no_finalizers, api_requests.MERGE
        )
        yield Request(f"{kind.plural}: clear up", "DELETE", api_requests.place(kind, name), {"gracePeriodSeconds": 0})


Conversation = Callable[[], Iterator[Request]]
CONVERSATIONS: Final[dict[str, Conversation]] = {
    "reading": api_conversations.reading,
    "subresources": api_conversations.subresources,
    "sparse statuses": api_conversations.sparse_statuses,
    "group statuses": api_conversations.group_statuses,
    "storage": api_conversations.storage,
    "pod addresses": api_conversations.pod_addresses,
    **{f"{kind.plural}.{kind.api_version}": partial(requests_about, kind) for kind in VALID},
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_responses_are_equal(
    servers: tuple[ApiEndpoint, ApiEndpoint], label_differences: dict[str, set[str]], name: str
) -> None:
    theirs, ours = servers
    different, label_differences[name] = [], set()
    for request in CONVERSATIONS[name]():
        if found := differences(theirs.send(request), ours.send(request)):
            label_differences[name].add(request.label)
            if not is_known(request):
                different.append(f"{request.label}\n  " + "\n  ".join(found))
    assert not different, "\n".join(different)


def test_every_kind_is_covered() -> None:
    questions = {kind for kind in kinds.KINDS if "list" not in kind.verbs}
    assert set(VALID) == set(kinds.KINDS) - questions


def test_known_differences_still_exist(label_differences: dict[str, set[str]]) -> None:
    """A difference that no longer exists must be removed from the list. Uses the results of the tests above."""
    if label_differences.keys() != CONVERSATIONS.keys():
        pytest.skip("not everything was asked in this run")
    found = set().union(*label_differences.values())
    assert {pattern for pattern in KNOWN if not fnmatch.filter(found, pattern)} == set()
