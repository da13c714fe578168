"""Tokens of service accounts: what makes them good, and what ends them."""

from typing import Any

import msgspec
import pytest

from builders import pod_body
from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.views.meta import ApiObject
from mooring.server.authentication.json_web_tokens import SigningKey
from mooring.server.authentication.service_account_tokens import ISSUER, ServiceAccountTokens
from mooring.server.authentication.tokens import BadToken
from mooring.server.contract import DeleteOptions
from mooring.server.objects import Objects
from server.harness import Harness

KEY = SigningKey.new()


class Accounts:
    """The account `default/ci`, its tokens, and things to bind them to."""

    def __init__(self, server: Harness) -> None:
        self.server = server
        self.tokens = ServiceAccountTokens(KEY, Objects(server.store), server.clock)

    async def create(self, kind: Kind[Any], body: dict[str, Any]) -> ApiObject:
        return msgspec.convert(await self.server.create(kind, body), ApiObject)

    async def account(self) -> ApiObject:
        return await self.create(SERVICE_ACCOUNT, {"metadata": {"name": "ci"}})

    def issue(self, account: ApiObject, seconds: int = 600, **bound: ApiObject) -> str:
        issued = self.tokens.issue(account, audiences=(ISSUER,), seconds=seconds, token_id="t-1", bound=bound)
        assert issued.expires == int(self.server.clock.now()) + seconds
        return issued.token

    async def refusal(self, token: str, *audiences: str) -> str:
        with pytest.raises(BadToken) as refused:
            await self.tokens.identify(token, audiences)
        return str(refused.value)


@pytest.fixture
async def accounts(server: Harness) -> Accounts:
    return Accounts(server)


async def test_whose_it_is(accounts: Accounts) -> None:
    account = await accounts.account()
    found = await accounts.tokens.identify(accounts.issue(account), ())
    assert found is not None
    assert found.audiences == (ISSUER,)
    user = found.user
    assert (user.name, user.uid) == ("system:serviceaccount:default:ci", account.uid)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=t-1",)}


async def test_it_ends_with_its_time(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    await accounts.server.clock.sleep(599)
    assert await accounts.tokens.identify(token, ()) is not None
    await accounts.server.clock.sleep(1)
    assert await accounts.refusal(token) == "service account token has expired"


async def test_it_does_not_begin_before_its_time(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    accounts.server.clock.seconds -= 60
    assert await accounts.refusal(token) == "service account token is not valid yet"


async def test_it_ends_with_its_account(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    await accounts.server.delete(SERVICE_ACCOUNT, "ci")
    assert await accounts.refusal(token) == "ServiceAccount ci of the token is gone"
    await accounts.account()
    assert await accounts.refusal(token) == "ServiceAccount ci of the token is gone"


@pytest.mark.parametrize(
    ("claim", "kind"),
    [("", SERVICE_ACCOUNT), ("secret", SECRET), ("node", NODE)],
)
async def test_it_ends_a_minute_after_a_deletion_that_waits(accounts: Accounts, claim: str, kind: Kind[Any]) -> None:
    """An object that stays for a finalizer no longer vouches for a token."""
    thing = await accounts.create(kind, {"metadata": {"name": "x", "finalizers": ["example.com/kept"]}})
    account = thing if kind is SERVICE_ACCOUNT else await accounts.account()
    token = accounts.issue(account, **({claim: thing} if claim else {}))
    await accounts.server.delete(kind, "x")
    await accounts.server.clock.sleep(60)
    assert await accounts.tokens.identify(token, ()) is not None
    await accounts.server.clock.sleep(1)
    assert await accounts.refusal(token) == f"{kind.kind} x of the token has been deleted"
    late = accounts.issue(account, **({claim: thing} if claim else {}))
    assert await accounts.refusal(late) == f"{kind.kind} x of the token has been deleted"


@pytest.mark.parametrize(
    ("claim", "kind", "body"),
    [
        pytest.param("pod", POD, pod_body(name="p"), id="pod"),
        pytest.param("secret", SECRET, {"metadata": {"name": "p"}}, id="secret"),
        pytest.param("node", NODE, {"metadata": {"name": "p"}}, id="node"),
    ],
)
async def test_it_ends_with_what_it_is_bound_to(
    accounts: Accounts, claim: str, kind: Kind[Any], body: dict[str, Any]
) -> None:
    account, thing = await accounts.account(), await accounts.create(kind, body)
    token = accounts.issue(account, **{claim: thing})
    found = await accounts.tokens.identify(token, ())
    assert found is not None
    if claim != "secret":
        assert found.user.extra[f"authentication.kubernetes.io/{claim}-name"] == ("p",)
        assert found.user.extra[f"authentication.kubernetes.io/{claim}-uid"] == (thing.uid,)
    await accounts.server.delete(kind, "p", DeleteOptions(grace_seconds=0))
    assert await accounts.refusal(token) == f"{kind.kind} p of the token is gone"


async def test_a_pods_node_may_go_before_it(accounts: Accounts) -> None:
    account, pod = await accounts.account(), await accounts.create(POD, pod_body(name="p"))
    node = await accounts.create(NODE, {"metadata": {"name": "n"}})
    token = accounts.issue(account, pod=pod, node=node)
    await accounts.server.delete(NODE, "n")
    assert await accounts.tokens.identify(token, ()) is not None


async def test_audiences(accounts: Accounts) -> None:
    token = accounts.issue(await accounts.account())
    found = await accounts.tokens.identify(token, ("vault", ISSUER))
    assert found is not None
    assert found.audiences == (ISSUER,)
    assert await accounts.refusal(token, "vault") == (
        f'token audiences ["{ISSUER}"] is invalid for the target audiences ["vault"]'
    )


def claims(**changes: object) -> dict[str, Any]:
    private = {"namespace": "default", "serviceaccount": {"name": "ci", "uid": "u"}}
    good = {"iss": ISSUER, "sub": "system:serviceaccount:default:ci", "aud": [ISSUER], "exp": 1 << 40, "nbf": 0}
    return good | {"jti": "t", "kubernetes.io": private} | changes


@pytest.mark.parametrize(
    ("signed", "why"),
    [
        pytest.param(claims(sub="system:serviceaccount:kube-system:admin"), "subject is not", id="another subject"),
        pytest.param(claims(exp="never"), "claims are not those", id="a time that is none"),
        pytest.param(claims(aud="api"), "claims are not those", id="audience that is no list"),
        pytest.param({"iss": ISSUER}, "claims are not those", id="nothing but the issuer"),
        pytest.param(claims(), "ServiceAccount ci of the token is gone", id="an account that never was"),
    ],
)
async def test_a_good_signature_is_not_enough(accounts: Accounts, signed: dict[str, Any], why: str) -> None:
    assert why in await accounts.refusal(KEY.sign(signed))


async def test_tokens_of_others_are_left_to_others(accounts: Accounts) -> None:
    assert await accounts.tokens.identify("opaque", ()) is None
    assert await accounts.tokens.identify(KEY.sign(claims(iss="https://elsewhere")), ()) is None
    assert await accounts.refusal(SigningKey.new().sign(claims())) == "the token was signed with another key"
