"""New tokens for service accounts."""

import random
from typing import Any

import pytest

from builders import pod_body
from mooring.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, NotImplementedHere
from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT
from mooring.server.api import ApiServer
from mooring.server.authentication.json_web_tokens import SigningKey
from mooring.server.authentication.service_account_tokens import ISSUER, ServiceAccountTokens
from mooring.server.contract import Target, WriteOptions
from mooring.server.objects import Objects
from mooring.server.security import Security
from server.harness import SOMEBODY, Harness, decoded

KEY = SigningKey.new()
CI = Target(SERVICE_ACCOUNT, "default", "ci", "token")


class Issuer:
    def __init__(self, server: Harness) -> None:
        self.server = server
        self.tokens = ServiceAccountTokens(KEY, Objects(server.store), server.clock)
        security = Security(tokens=self.tokens, accounts=self.tokens)
        self.api = ApiServer(server.store, server.clock, random.Random(5), security)

    async def request(self, spec: dict[str, Any] | None = None, target: Target = CI, **metadata: str) -> dict[str, Any]:
        body = {"metadata": metadata, "spec": spec or {}}
        written = await self.api.create(SOMEBODY, target, body, WriteOptions())
        assert written.code == 201
        return decoded(written.body)

    async def bound(self, kind: str, **more: str) -> dict[str, Any]:
        return await self.request({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "x"} | more})


@pytest.fixture
async def issuer(server: Harness) -> Issuer:
    await server.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})
    return Issuer(server)


async def test_a_token_for_an_hour(issuer: Issuer) -> None:
    answer = await issuer.request()
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert (answer["metadata"]["name"], answer["metadata"]["namespace"]) == ("ci", "default")
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-01-02T04:04:05Z"
    found = await issuer.tokens.identify(answer["status"]["token"], ())
    assert found is not None
    assert found.user.name == "system:serviceaccount:default:ci"


async def test_two_tokens_are_different(issuer: Issuer) -> None:
    tokens = {(await issuer.request())["status"]["token"] for _ in range(2)}
    assert len({KEY.verify(token)["jti"] for token in tokens}) == 2


async def test_time_and_audiences_as_asked(issuer: Issuer) -> None:
    answer = await issuer.request({"audiences": ["vault"], "expirationSeconds": 600})
    claims = KEY.verify(answer["status"]["token"])
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 600)


async def test_bound_to_a_pod_and_its_node(issuer: Issuer) -> None:
    await issuer.server.create(NODE, {"metadata": {"name": "n"}})
    pod = pod_body(name="x", node="n")
    pod["spec"]["serviceAccountName"] = "ci"
    uid = (await issuer.server.create(POD, pod))["metadata"]["uid"]
    answer = await issuer.bound("Pod", uid=uid)
    private = KEY.verify(answer["status"]["token"])["kubernetes.io"]
    assert private["pod"] == {"name": "x", "uid": uid}
    assert private["node"]["name"] == "n"


async def test_bound_to_a_secret(issuer: Issuer) -> None:
    await issuer.server.create(SECRET, {"metadata": {"name": "x"}})
    assert "secret" in KEY.verify((await issuer.bound("Secret"))["status"]["token"])["kubernetes.io"]


REF = {"apiVersion": "v1", "kind": "Pod", "name": "x"}


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        pytest.param(
            {"expirationSeconds": 599}, Invalid, "may not specify a duration less than 10 minutes", id="short"
        ),
        pytest.param({"expirationSeconds": (1 << 32) + 1}, Invalid, r"larger than 2\^32 seconds", id="long"),
        pytest.param({"expirationSeconds": "1h"}, BadRequest, "cannot be handled as a TokenRequest", id="no number"),
        pytest.param({"boundObjectRef": REF}, NotFound, 'pods "x" not found', id="bound to nothing"),
        pytest.param(
            {"boundObjectRef": REF | {"kind": "ConfigMap"}},
            BadRequest,
            "to object of type /v1, Kind=ConfigMap",
            id="kind",
        ),
    ],
)
async def test_refusals(issuer: Issuer, spec: dict[str, Any], error: type[ApiError], text: str) -> None:
    with pytest.raises(error, match=text):
        await issuer.request(spec)


async def test_what_it_is_bound_to_must_fit(issuer: Issuer) -> None:
    await issuer.server.create(POD, pod_body(name="x"))
    with pytest.raises(BadRequest, match="pod running with different serviceaccount name"):
        await issuer.bound("Pod")
    with pytest.raises(Conflict, match=r"the UID in the bound object reference \(other\) does not match"):
        await issuer.bound("Pod", uid="other")


@pytest.mark.parametrize(("field", "value"), [("name", "other"), ("namespace", "other")])
async def test_it_is_about_the_account_of_the_url(issuer: Issuer, field: str, value: str) -> None:
    with pytest.raises(Invalid, match=rf"metadata\.{field}: .* must match the service account {field} if specified"):
        await issuer.request(**{field: value})


async def test_an_account_that_is_not_there(issuer: Issuer) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "nobody" not found'):
        await issuer.request(target=Target(SERVICE_ACCOUNT, "default", "nobody", "token"))


async def test_a_server_without_a_key_says_so(server: Harness) -> None:
    await server.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})
    with pytest.raises(NotImplementedHere, match="no key"):
        await server.api.create(SOMEBODY, CI, {}, WriteOptions())
