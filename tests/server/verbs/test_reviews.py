"""TokenReviews, access reviews and rules reviews."""

import random
from typing import Any

import pytest

from mooring.api import kinds
from mooring.api.errors import BadRequest, Invalid
from mooring.api.kinds import Kind
from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import AuthenticatedUser, BadToken, StaticTokens
from mooring.server.auth.authorizer import Security
from mooring.server.auth.policy import binding, path_rule, rule, user
from mooring.server.contract import Target, User, WriteOptions
from mooring.server.verbs.reviews import REVIEWS
from mooring.store.watch_cache import MemoryStore
from support.server.harness import ManualClock, decoded
from support.server.policies import Policy, binding_view

ALICE = User("alice", ("dev", "system:authenticated"), "7", {"scope": ("a", "b")})
GET_PODS = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "ci"}}


class Oracle:
    """A server that knows Alice's token, and a policy without defaults."""

    def __init__(self) -> None:
        self.policy = Policy(defaults=False).grant("alice", rule("get", "pods"), namespace="ci")
        security = Security(self.policy, StaticTokens({"alice-token": ALICE}, audiences=("api",)))
        self.store = MemoryStore()
        self.api = ApiServer(self.store, ManualClock(), random.Random(1), security)

    async def ask(
        self, kind: Kind[Any], spec: dict[str, Any], *, by: User = ALICE, namespace: str = ""
    ) -> dict[str, Any]:
        body = {"spec": spec} if spec else {}
        written = await self.api.create(by, Target(kind, namespace), body, WriteOptions())
        assert written.code == 201
        return decoded(written.body)

    async def status(
        self, kind: Kind[Any], spec: dict[str, Any], *, by: User = ALICE, namespace: str = ""
    ) -> dict[str, Any]:
        status: dict[str, Any] = (await self.ask(kind, spec, by=by, namespace=namespace))["status"]
        return status


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


ALLOWED = {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "granted-1/ci" of Role "granted-1" to User "alice"'}


async def test_self_access_review(oracle: Oracle) -> None:
    assert await oracle.status(kinds.SELF_ACCESS_REVIEW, GET_PODS) == ALLOWED
    elsewhere = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert await oracle.status(kinds.SELF_ACCESS_REVIEW, elsewhere) == {"allowed": False}
    assert await oracle.status(kinds.SELF_ACCESS_REVIEW, GET_PODS, by=User("bob")) == {"allowed": False}


async def test_self_access_review_of_a_path(oracle: Oracle) -> None:
    asked = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    assert await oracle.status(kinds.SELF_ACCESS_REVIEW, asked) == {"allowed": False}
    oracle.policy.grant("alice", path_rule("get", "/metrics"))
    assert (await oracle.status(kinds.SELF_ACCESS_REVIEW, asked))["allowed"]


async def test_all_of_a_request_counts(oracle: Oracle) -> None:
    oracle.policy.grant("bob", rule("patch", "things/status", "x.io", names="one"), namespace="ci")
    asked = {"verb": "patch", "group": "x.io", "resource": "things", "subresource": "status", "namespace": "ci"}
    for name, allowed in (("one", True), ("two", False)):
        spec = {"resourceAttributes": asked | {"name": name}}
        found = await oracle.status(kinds.SELF_ACCESS_REVIEW, spec, by=User("bob"))
        assert found["allowed"] is allowed


async def test_subject_access_review(oracle: Oracle) -> None:
    root = User("root")
    assert await oracle.status(kinds.ACCESS_REVIEW, GET_PODS | {"user": "alice"}, by=root) == ALLOWED
    assert await oracle.status(kinds.ACCESS_REVIEW, GET_PODS | {"user": "bob"}, by=root) == {"allowed": False}
    masters = GET_PODS | {"user": "bob", "groups": ["system:masters"]}
    assert await oracle.status(kinds.ACCESS_REVIEW, masters, by=root) == {"allowed": True}


async def test_local_subject_access_review(oracle: Oracle) -> None:
    spec = GET_PODS | {"user": "alice"}
    assert await oracle.status(kinds.LOCAL_ACCESS_REVIEW, spec, by=User("root"), namespace="ci") == ALLOWED
    with pytest.raises(Invalid, match=r'namespace: Invalid value: "ci": must match metadata\.namespace'):
        await oracle.ask(kinds.LOCAL_ACCESS_REVIEW, spec, namespace="other")


async def test_a_role_that_is_not_there_is_the_reason(oracle: Oracle) -> None:
    oracle.policy.index.put_binding(binding_view(binding("b", user("bob"), role="gone").body()))
    want = {"allowed": False, "reason": 'rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'}
    assert await oracle.status(kinds.SELF_ACCESS_REVIEW, GET_PODS, by=User("bob")) == want


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        pytest.param(
            kinds.SELF_ACCESS_REVIEW,
            {},
            "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            id="nothing asked",
        ),
        pytest.param(
            kinds.SELF_ACCESS_REVIEW,
            GET_PODS | {"nonResourceAttributes": {"verb": "get", "path": "/x"}},
            'spec: Invalid value: {"Path":"/x","Verb":"get"}: exactly one of nonResourceAttributes or '
            "resourceAttributes must be specified",
            id="two questions",
        ),
        pytest.param(
            kinds.ACCESS_REVIEW,
            GET_PODS,
            'spec.user: Invalid value: "": at least one of user or group must be specified',
            id="no subject",
        ),
    ],
)
async def test_invalid_reviews_are_rejected(oracle: Oracle, kind: Kind[Any], spec: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid) as refused:
        await oracle.ask(kind, spec)
    assert refused.value.message == f'.authorization.k8s.io "" is invalid: {why}'


async def test_self_rules_review(oracle: Oracle) -> None:
    oracle.policy.grant("alice", path_rule("get", "/x"), rule("list", "nodes", names="n"))
    answer = await oracle.ask(kinds.SELF_RULES_REVIEW, {"namespace": "ci"})
    assert answer["spec"] == {}
    assert answer["status"] == {
        "resourceRules": [
            {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
        "incomplete": False,
    }
    with pytest.raises(BadRequest, match="no namespace on request"):
        await oracle.ask(kinds.SELF_RULES_REVIEW, {})


async def test_self_subject_review(oracle: Oracle) -> None:
    answer = await oracle.ask(kinds.SELF_SUBJECT_REVIEW, {})
    assert answer["metadata"] == {"creationTimestamp": "2026-01-02T03:04:05Z"}
    assert answer["status"]["userInfo"] == {
        "username": "alice",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"scope": ["a", "b"]},
    }


async def test_token_review(oracle: Oracle) -> None:
    answer = await oracle.ask(kinds.TOKEN_REVIEW, {"token": "alice-token"})
    assert answer["spec"] == {"token": "alice-token"}
    assert answer["status"]["authenticated"]
    assert answer["status"]["user"]["username"] == "alice"
    assert answer["status"]["audiences"] == ["api"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"token": "wrong"}, id="unknown token"),
        pytest.param({"token": "alice-token", "audiences": ["vault"]}, id="other audience"),
    ],
)
async def test_token_review_of_an_unknown_token(oracle: Oracle, spec: dict[str, Any]) -> None:
    assert await oracle.status(kinds.TOKEN_REVIEW, spec) == {"user": {}, "error": "invalid bearer token"}


class Suspicious:
    async def identify(self, token: str, audiences: object) -> AuthenticatedUser | None:
        raise BadToken("service account token has expired")


async def test_token_review_contains_the_error() -> None:
    api = ApiServer(MemoryStore(), ManualClock(), random.Random(1), Security(tokens=Suspicious()))
    body = {"spec": {"token": "t"}}
    written = await api.create(ALICE, Target(kinds.TOKEN_REVIEW), body, WriteOptions())
    assert decoded(written.body)["status"]["error"] == "[invalid bearer token, service account token has expired]"


async def test_token_review_requires_a_token(oracle: Oracle) -> None:
    with pytest.raises(BadRequest, match="token is required"):
        await oracle.ask(kinds.TOKEN_REVIEW, {})


@pytest.mark.parametrize("kind", sorted(REVIEWS, key=lambda kind: kind.kind), ids=lambda kind: kind.kind)
async def test_reviews_are_not_stored(oracle: Oracle, kind: Kind[Any]) -> None:
    spec = {"token": "t"} if kind is kinds.TOKEN_REVIEW else GET_PODS | {"user": "u", "namespace": "ci"}
    known = {} if kind is kinds.SELF_SUBJECT_REVIEW else spec
    await oracle.ask(kind, known, namespace="ci" if kind.namespaced else "")
    assert oracle.store.revision == 0


async def test_a_server_without_rules_allows_everything() -> None:
    api = ApiServer(MemoryStore(), ManualClock(), random.Random(1))
    written = await api.create(ALICE, Target(kinds.SELF_ACCESS_REVIEW), {"spec": GET_PODS}, WriteOptions())
    assert decoded(written.body)["status"] == {"allowed": True}
