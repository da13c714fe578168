"""Tokens and the data of Secrets never reach the log, whatever happens to the request that carries them."""

import random
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession

from mooring.cli.runtime import PROCESSORS
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import install_policy
from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.authorizer import cluster_security
from mooring.server.contract import Target, User, WriteOptions, Written
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore

ADMIN_TOKEN = "administrators-t0ken"
PASSWORD = "hunter2-hunter2"
ENCODED = b64encode(PASSWORD.encode()).decode()
SECRETS = "/api/v1/namespaces/default/secrets"


class Fragile(ApiServer):
    """Breaks on one name, with everything it was given in its hands."""

    async def create(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        if body.get("metadata", {}).get("name") == "broken":
            raise RuntimeError("no luck today")
        return await super().create(user, target, body, options)


class Log:
    """Every line as it would be written."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def msg(self, line: str) -> None:
        self.lines.append(line)

    log = debug = info = warning = error = critical = exception = msg


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    before = structlog.get_config()
    structlog.configure(
        processors=PROCESSORS, logger_factory=lambda *_: log, wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )  # fmt: skip
    yield log
    structlog.configure(**before)


@pytest.fixture
async def client(tmp_path: Path, log: Log) -> AsyncIterator[ClientSession]:
    clock, store = SystemClock(), MemoryStore()
    admin = User("admin", ("system:masters",))
    security = cluster_security(store, clock=clock, directory=tmp_path, tokens={ADMIN_TOKEN: admin})
    api = Fragile(store, clock, random.Random(0), security)
    await install_policy(api)
    handler = RequestHandler(
        api, authenticator=Authenticator(security.tokens), access=security.access, clock=clock, rng=random.Random(0)
    )
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url) as session:
        yield session
    await listener.close()


def secret(name: str, **more: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"password": ENCODED}, "stringData": {"plain": PASSWORD}} | more


async def test_nothing_secret_is_logged(client: ClientSession, log: Log) -> None:
    admin = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    merge = admin | {"Content-Type": "application/merge-patch+json"}
    codes = []

    async def ask(method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
        async with client.request(method, path, json=body, headers=admin if headers is None else headers) as answer:
            codes.append(answer.status)
            told: dict[str, Any] = await answer.json()
            return told

    await ask("POST", SECRETS, secret("good"))
    await ask("POST", SECRETS, secret("broken"))
    await ask("POST", SECRETS, secret("Not A Name"))
    await ask("POST", SECRETS, secret("odd", type=5))
    await ask("POST", f"{SECRETS}?fieldValidation=Strict", secret("stray", stray=PASSWORD))
    await ask("PATCH", f"{SECRETS}/good", {"data": PASSWORD}, merge)
    await ask("PATCH", f"{SECRETS}/good", {"data": {"x": "not base64 " + PASSWORD}}, merge)
    await ask("GET", SECRETS, headers={"Authorization": "Bearer wrong-t0ken"})
    await ask("GET", SECRETS, headers={"Authorization": "Basic YWRtaW46aHVudGVyMg=="})
    made = await ask("POST", "/api/v1/namespaces/kube-system/serviceaccounts/mooring-bootstrap/token", {})
    token = made["status"]["token"]
    await ask("GET", SECRETS, headers={"Authorization": f"Bearer {token}"})
    await ask("GET", SECRETS, headers={"Authorization": f"Bearer {token}x"})
    await ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    await ask("GET", f"{SECRETS}/good")
    assert codes == [201, 500, 422, 400, 400, 422, 422, 401, 401, 201, 403, 401, 201, 200]
    written = "\n".join(log.lines)
    assert "no luck today" in written
    for hidden in (
        PASSWORD,
        ENCODED,
        ADMIN_TOKEN,
        token,
        token.rpartition(".")[2],
        "wrong-t0ken",
        "YWRtaW46aHVudGVyMg",
    ):
        assert hidden not in written
