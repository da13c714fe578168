"""Random roles, bindings and requests to the server over HTTP: it refuses what the oracle refuses, for the same reason,
and nothing else. The same requests go to the real kube-apiserver in `conformance/test_access_differential`.
"""

import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.authorizer import cluster_security
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore
from support.conformance.random_access import (
    BINDINGS,
    RBAC_PATH,
    ROLES,
    Act,
    Json,
    aggregated,
    collection,
    draw_scenario,
    merged,
)
from support.server.harness import ManualClock
from support.server.rbac_oracle import (
    ALLOWED,
    ESCALATION,
    MISSING,
    UNAUTHORIZED,
    UNKNOWN,
    AccessAttributes,
    Caller,
    Oracle,
)

ADMIN = User("admin", ("system:masters",))
ACTS = 60
#: Some hundred requests, or as many as MOORING_ACCESS_REQUESTS says.
WORLDS = range(1, int(os.environ.get("MOORING_ACCESS_REQUESTS", "480")) // ACTS + 1)


class Client:
    """The server, called by the impersonating administrator and by the account of a scenario."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.account_token = ""

    async def send(
        self, method: str, path: str, body: Json, headers: list[tuple[str, str]], *, by_account: bool = False
    ) -> tuple[int, Json]:
        token = self.account_token if by_account else "admin"
        sent = [*headers, ("Authorization", f"Bearer {token}")]
        async with self._session.request(method, path, json=body, headers=sent) as answer:
            if "watch=1" in path and answer.status == 200:
                return answer.status, None
            return answer.status, await answer.json() if answer.content_type == "application/json" else None

    async def as_admin(self, method: str, path: str, body: Json = None, content_type: str = "application/json") -> Json:
        code, answer = await self.send(method, path, body, [("Content-Type", content_type)])
        assert code in (200, 201), (method, path, answer)
        return answer

    async def act(self, act: Act, stored: Json) -> tuple[int, Json]:
        body = act.body
        if act.replay and stored is not None:
            body = merged(stored, act.body)
        headers = [*act.actor.headers(), ("Content-Type", act.content_type)]
        return await self.send(act.method, act.path, body, headers, by_account=act.actor.by_account)

    async def fill(self, oracle: Oracle, namespaces: tuple[str, ...]) -> None:
        """What is stored by now, after aggregated roles were made of others."""
        await self._list(oracle, namespaces)
        roles = {name: obj for (plural, _, name), obj in oracle.objects.items() if plural == "clusterroles"}
        for name, rules in aggregated(roles).items():
            path = f"{RBAC_PATH}/clusterroles/{name}"
            await self.as_admin("PATCH", path, {"rules": rules}, "application/merge-patch+json")
        await self._list(oracle, namespaces)

    async def _list(self, oracle: Oracle, namespaces: tuple[str, ...]) -> None:
        oracle.objects = {}
        for plural in (*ROLES, *BINDINGS):
            for place in namespaces if plural in ("roles", "rolebindings") else ("",):
                for obj in (await self.as_admin("GET", collection(plural, place)))["items"]:
                    oracle.objects[plural, place, obj["metadata"]["name"]] = obj


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    clock, store = ManualClock(), MemoryStore()
    security = cluster_security(store, clock=clock, directory=tmp_path, tokens={"admin": ADMIN})
    api = ApiServer(store, clock, random.Random(0), security)
    authenticator = Authenticator(security.tokens)
    shell = RequestHandler(api, authenticator=authenticator, access=security.access, clock=clock, rng=random.Random(0))
    listener = await listen(shell.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url) as session:
        yield Client(session)
    shell.end_watches()
    await listener.close()


@pytest.fixture(scope="module")
def reported() -> Counter[str]:
    """Verdicts of all worlds."""
    return Counter()


def path_of(plural: str, namespace: str, name: str) -> str:
    return f"{collection(plural, namespace)}/{name}"


def reason(code: int, answer: Json) -> str:
    if code != 403:
        return ALLOWED
    escalates = "not currently held" in answer["message"] or "use the aggregationRule" in answer["message"]
    return ESCALATION if escalates else UNAUTHORIZED


def asked_about(spec: Json) -> AccessAttributes:
    if path := spec.get("nonResourceAttributes"):
        return AccessAttributes(path["verb"], path=path["path"])
    of = spec["resourceAttributes"]
    resource = f"{of['resource']}/{of['subresource']}" if "subresource" in of else of["resource"]
    return AccessAttributes(of["verb"], of["group"], resource, of["namespace"], of["name"])


@pytest.mark.parametrize("seed", WORLDS)
async def test_what_is_refused_is_what_the_rules_do_not_allow(
    client: Client, reported: Counter[str], seed: int
) -> None:
    made = draw_scenario(seed, ACTS)
    for path, body in made.objects:
        await client.as_admin("POST", path, body)
    token = await client.as_admin("POST", f"/api/v1/namespaces/{made.namespaces[0]}/serviceaccounts/bot/token", {})
    client.account_token = token["status"]["token"]
    oracle = Oracle(made.account)
    await client.fill(oracle, made.namespaces)
    verdicts: Counter[str] = Counter()
    for number, act in enumerate(made.acts):
        expected = oracle.verdict(act)
        verdicts[expected] += 1
        stored = next((obj for key, obj in oracle.objects.items() if path_of(*key) == act.path), None)
        code, answer = await client.act(act, stored)
        if expected == MISSING:
            assert code == 404, (number, act, answer)
        else:
            assert expected in (reason(code, answer), UNKNOWN), (number, act, answer)
        if "accessreviews" in act.path and code == 201:
            spec, caller = act.body["spec"], oracle.caller(act)
            if "user" in spec:
                caller = Caller(spec["user"], tuple(spec["groups"]))
            assert caller is not None
            assert answer["status"]["allowed"] == oracle.allows(caller, asked_about(spec)), (number, act)
        if act.writes_access and code < 400:
            await client.fill(oracle, made.namespaces)
    reported.update(verdicts)


def test_random_cases_cover_all_outcomes(reported: Counter[str]) -> None:
    """Requests that are all refused, or all allowed, would show nothing. Looks at what the tests above found."""
    if sum(reported.values()) < len(WORLDS) * ACTS:
        pytest.skip("not everything was asked in this run")
    assert min(reported[UNAUTHORIZED], reported[ALLOWED]) > len(WORLDS) * ACTS // 4, reported
    assert reported[ESCALATION] > len(WORLDS) * ACTS // 40, reported
