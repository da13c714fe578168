"""The shell as a whole: what is open to whom, and what failures look like on the wire."""

import asyncio
import random

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from mooring.api.errors import ApiError, Details, NotFound, ServerTimeout, ServiceUnavailable, not_found
from mooring.server.auth.access import AlwaysAllow
from mooring.server.auth.authenticator import Authenticator, StaticTokens
from mooring.server.auth.policy import path_rule, rule
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import Listener, listen
from support.server.policies import Policy
from support.server.stub_api import StoppedClock, StubApi

CONFIGS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("path", ["/version", "/version/", "/version?timeout=5s"])
async def test_version_needs_no_authentication(anonymous: ClientSession, path: str) -> None:
    async with anonymous.get(path) as answer:
        told = await answer.json()
    assert (told["major"], told["minor"], told["gitVersion"]) == ("1", "37", "v1.37.1+mooring")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/"])
async def test_health_needs_no_authentication(anonymous: ClientSession, path: str) -> None:
    async with anonymous.get(path) as answer:
        assert (answer.status, answer.content_type, await answer.text()) == (200, "text/plain", "ok")


async def test_readiness_runs_configured_checks(api: StubApi, clock: StoppedClock) -> None:
    checks = {"scheduler": lambda: "not ready"}
    handler = RequestHandler(
        api,
        authenticator=Authenticator(StaticTokens({})),
        access=AlwaysAllow(),
        clock=clock,
        rng=random.Random(1),
        readiness=checks,
    )
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url) as client:
        async with client.get("/readyz") as answer:
            assert answer.status == 500
            assert await answer.text() == "[+]ping ok\n[-]scheduler failed: reason withheld\nreadyz check failed\n"
        async with client.get("/readyz?exclude=scheduler") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with client.get("/readyz/scheduler") as answer:
            assert (answer.status, await answer.text()) == (500, "internal server error: not ready\n")
        async with client.get("/livez?verbose") as answer:
            assert (answer.status, await answer.text()) == (200, "[+]ping ok\nlivez check passed\n")
    await listener.close()


@pytest.mark.parametrize("path", [CONFIGS, "/api", "/apis", "/openapi/v3", "/", "/nowhere"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}], ids=["no token", "wrong token"])
async def test_other_paths_need_authentication(anonymous: ClientSession, path: str, headers: dict[str, str]) -> None:
    async with anonymous.get(path, headers=headers) as answer:
        status = await answer.json()
    assert answer.status == 401
    assert (status["kind"], status["reason"], status["message"]) == ("Status", "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version"])
async def test_discovery_needs_no_rights(alice: ClientSession, path: str) -> None:
    async with alice.get(path) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("agent", "named"),
    [
        pytest.param("kubectl/v1.20.2 (linux/amd64) kubernetes/faecb19", "1.20", id="old"),
        pytest.param("kubectl.exe/v1.29.0 (windows/amd64) kubernetes/1", "1.29", id="old on Windows"),
        pytest.param("kubectl/v1.30.0 (linux/amd64) kubernetes/7c48c2b", "", id="supported"),
        pytest.param("kubectl/v1.32.4-dispatcher (linux/amd64)", "", id="newer"),
        pytest.param("kubectl/v2.1.0", "", id="another major version"),
        pytest.param("kube-scheduler/v1.20.2 (linux/amd64)", "", id="another program"),
        pytest.param("kubectl/v1." + "9" * 5000, "", id="nonsense"),
        pytest.param("", "", id="none"),
    ],
)
@pytest.mark.parametrize(
    "path", ["/api", CONFIGS, "/nowhere", f"{CONFIGS}/x/y/z"], ids=["document", "list", "404", "error"]
)
async def test_old_kubectl_is_warned(admin: ClientSession, agent: str, named: str, path: str) -> None:
    """kubectl prints the header of any response, once."""
    async with admin.get(path, headers={"User-Agent": agent}) as answer:
        warnings = answer.headers.getall("Warning", [])
    assert [text.split("is")[0] for text in warnings] == ([f'299 - "kubectl {named} '] if named else [])


async def test_forbidden_names_the_missing_right(alice: ClientSession, api: StubApi) -> None:
    async with alice.get(CONFIGS) as answer:
        status = await answer.json()
    assert (answer.status, status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    assert not api.calls


@pytest.mark.parametrize("path", ["/", "/metrics", "/nowhere"])
async def test_other_paths_need_a_right(alice: ClientSession, admin: ClientSession, policy: Policy, path: str) -> None:
    async with alice.get(path) as answer:
        assert answer.status == 403
        assert (await answer.json())["message"] == f'forbidden: User "alice" cannot get path "{path}"'
    policy.grant("alice", path_rule("get", path))
    for client in (alice, admin):
        async with client.get(path) as answer:
            assert answer.status == (404 if path == "/nowhere" else 200)


async def test_right_applies_to_next_request(alice: ClientSession, api: StubApi, policy: Policy) -> None:
    policy.grant("alice", rule("list", "configmaps"), namespace="default")
    async with alice.get(CONFIGS) as answer:
        assert answer.status == 200
    policy.index.drop_binding("default", "granted-1")
    async with alice.get(CONFIGS) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_field_selector_names_no_object_for_other_verbs(
    alice: ClientSession, api: StubApi, policy: Policy, method: str
) -> None:
    """A right to the object `a` must not create others, whatever the query of the request says."""
    policy.grant("alice", rule("*", "configmaps", names="a"), namespace="default")
    body = {"metadata": {"name": "b"}} if method == "POST" else None
    async with alice.request(method, CONFIGS, json=body, params={"fieldSelector": "metadata.name=a"}) as answer:
        assert answer.status == 403
    assert not api.calls


@pytest.mark.parametrize("path", ["/apis/none.example/v1/things", "/api/v1/nothings", f"{CONFIGS}/a/nothing"])
async def test_not_found_needs_the_right(alice: ClientSession, admin: ClientSession, path: str) -> None:
    async with alice.get(path) as answer:
        assert answer.status == 403
    async with admin.get(path) as answer:
        assert answer.status == 404


async def test_a_namespace_can_be_read_by_a_right_inside_it(alice: ClientSession, policy: Policy) -> None:
    policy.grant("alice", rule("get", "namespaces"), namespace="default")
    for name, code in (("default", 200), ("other", 403)):
        async with alice.get(f"/api/v1/namespaces/{name}") as answer:
            assert answer.status == code


async def test_a_right_to_one_name_is_enough_to_select_it(alice: ClientSession, policy: Policy) -> None:
    policy.grant("alice", rule("list", "configmaps", names="a"), namespace="default")
    for fields, want in (("metadata.name=a", 200), ("metadata.name=b", 403), ("metadata.name!=a", 403), ("", 403)):
        async with alice.get(CONFIGS, params={"fieldSelector": fields}) as answer:
            assert answer.status == want, fields


async def test_metrics_are_shown_in_the_format_of_prometheus(admin: ClientSession) -> None:
    async with admin.get("/metrics") as answer:
        assert (answer.content_type, await answer.text()) == ("text/plain", "some_metric 1\n")


async def test_debug_document_needs_right_to_path(alice: ClientSession, admin: ClientSession, policy: Policy) -> None:
    async with alice.get("/debug/told") as answer:
        assert answer.status == 403
    policy.grant("alice", path_rule("get", "/debug/told"))
    async with alice.get("/debug/told?pod=a/b") as answer:
        assert (answer.status, await answer.json()) == (200, {"pod": "a/b"})
    async with admin.post("/debug/told") as answer:
        assert answer.status == 405


async def test_invalid_credentials_are_rejected_everywhere(anonymous: ClientSession) -> None:
    for path in ("/livez", "/version"):
        async with anonymous.get(path, headers={"Authorization": "Bearer wrong"}) as answer:
            assert answer.status == 401


@pytest.mark.parametrize("path", ["/nowhere", "/apis/unknown.io/v1/things", "/openapi/v2", "/api/v2", "/livez/foo"])
async def test_paths_outside_the_api_are_a_plain_404(admin: ClientSession, path: str) -> None:
    async with admin.get(path) as answer:
        assert (answer.status, answer.content_type) == (404, "text/plain")
        assert await answer.text() == "404 page not found\n"


async def raw_status(listener: Listener, target: bytes) -> int:
    """The code of the answer to a request no proper client would send."""
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\n\r\n")
    async with asyncio.timeout(2):
        status = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return int(status.split()[1])


@pytest.mark.parametrize(
    ("target", "want"),
    [
        pytest.param(b"//api", 200, id="double slash in front"),
        pytest.param(b"/api//v1//namespaces/default//configmaps/", 200, id="double slashes"),
        pytest.param(b"/api/v1/nodes/\xff", 400, id="path that is not text"),
        pytest.param(b"/api/v1/nodes?limit=\xff", 400, id="query that is not text"),
        pytest.param(b"/api/v1/nodes/%FF%00", 200, id="encoded bytes that are not text"),
    ],
)
async def test_odd_request_lines(listener: Listener, target: bytes, want: int) -> None:
    assert await raw_status(listener, target) == want


async def test_unknown_resources_are_a_status_404(admin: ClientSession) -> None:
    async with admin.get("/api/v1/foos") as answer:
        status = await answer.json()
    assert (answer.status, status["reason"], status["code"]) == (404, "NotFound", 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/version"), ("DELETE", "/healthz"), ("POST", "/api"), ("PUT", "/openapi/v3"), ("PUT", CONFIGS),
        ("POST", f"{CONFIGS}/a"), ("OPTIONS", CONFIGS), ("POST", "/api/v1/configmaps"),
    ],
)  # fmt: skip
async def test_wrong_methods_are_405(admin: ClientSession, method: str, path: str) -> None:
    async with admin.request(method, path) as answer:
        status = await answer.json()
    assert (answer.status, status["reason"]) == (405, "MethodNotAllowed")


async def test_an_api_error_becomes_a_status(admin: ClientSession, api: StubApi) -> None:
    api.refusal = not_found("configmaps", "a")
    async with admin.get(f"{CONFIGS}/a") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-cache, private"
        assert await answer.json() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'configmaps "a" not found',
            "reason": "NotFound",
            "details": {"name": "a", "kind": "configmaps"},
            "code": 404,
        }


@pytest.mark.parametrize(
    ("refusal", "want"),
    [
        pytest.param(ServerTimeout("later", details=Details(retry_after_seconds=1)), "1", id="passes"),
        pytest.param(NotFound("no", details=Details(name="a")), None, id="permanent"),
    ],
)
async def test_only_transient_errors_have_retry_after(
    admin: ClientSession, api: StubApi, refusal: ApiError, want: str | None
) -> None:
    api.refusal = refusal
    async with admin.get(f"{CONFIGS}/a") as answer:
        assert answer.headers.get("Retry-After") == want


async def test_unexpected_error_is_logged_and_withheld(admin: ClientSession, api: StubApi) -> None:
    api.refusal = RuntimeError("the secret is 42")
    with capture_logs() as logs:
        async with admin.get(f"{CONFIGS}/a") as answer:
            status = await answer.json()
    assert (answer.status, status["reason"]) == (500, "InternalError")
    assert "secret" not in status["message"]
    [line] = [entry for entry in logs if entry["log_level"] == "error"]
    assert line["exc_info"] is api.refusal
    assert (line["method"], line["path"]) == ("GET", f"{CONFIGS}/a")
    assert status["message"].endswith(f"under reference {line['reference']}")


async def test_root_lists_paths(admin: ClientSession) -> None:
    async with admin.get("/") as answer:
        paths = (await answer.json())["paths"]
    for path in paths:
        async with admin.get(path) as answer:
            assert answer.status == 200, path
    assert {"/api/v1", "/apis/storage.k8s.io/v1", "/openapi/v3", "/readyz", "/version"} <= set(paths)


async def test_watches_per_user_are_limited(api: StubApi, clock: StoppedClock) -> None:
    tokens = {"a": User("alice", ("system:masters",)), "b": User("bob", ("system:masters",))}
    handler = RequestHandler(
        api,
        authenticator=Authenticator(StaticTokens(tokens)),
        access=AlwaysAllow(),
        clock=clock,
        rng=random.Random(1),
        watches_per_user=1,
    )
    listener = await listen(handler.handle, "127.0.0.1", 0, None)
    api.watch_events = ()
    async with ClientSession(listener.url) as client:

        async def status(token: str) -> int:
            async with client.get(f"{CONFIGS}?watch=1", headers={"Authorization": f"Bearer {token}"}) as answer:
                return answer.status

        async with client.get(f"{CONFIGS}?watch=1", headers={"Authorization": "Bearer a"}) as first:
            assert first.status == 200
            assert await status("a") == 429
            assert await status("b") == 200
        for _ in range(100):
            if await status("a") == 200:
                break
            await asyncio.sleep(0.01)  # the server has not noticed yet that the first went
        else:
            pytest.fail("the place is not free again")
    handler.end_watches()
    await listener.close()


async def test_read_waits_for_store_barrier(api: StubApi, clock: StoppedClock) -> None:
    """Before it is looked at who they are: their token may have been revoked at another server."""
    behind = True

    async def wait_current() -> None:
        if behind:
            raise ServiceUnavailable("the server's store failed; its log says why")

    handler = RequestHandler(
        api,
        authenticator=Authenticator(StaticTokens({})),
        access=AlwaysAllow(),
        clock=clock,
        rng=random.Random(1),
        wait_current=wait_current,
    )
    listener = await listen(handler.handle, "127.0.0.1", 0, None)

    async with ClientSession(listener.url) as client:

        async def status(path: str) -> int:
            async with client.get(path) as answer:
                return answer.status

        assert [await status(path) for path in (CONFIGS, "/apis/apps/v1/deployments")] == [503, 503]
        assert [await status(path) for path in ("/livez", "/readyz", "/version")] == [200, 200, 200]
        behind = False
        assert await status(CONFIGS) == 401
    await listener.close()


async def test_impersonation_over_http(
    admin: ClientSession, alice: ClientSession, api: StubApi, policy: Policy
) -> None:
    async with admin.get(CONFIGS, headers={"Impersonate-User": "alice"}) as answer:
        assert answer.status == 403
        assert 'User "alice" cannot list' in (await answer.json())["message"]
    async with alice.get(
        CONFIGS, headers={"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    ) as answer:
        assert answer.status == 403
        assert 'User "alice" cannot impersonate resource "users"' in (await answer.json())["message"]
    assert not api.calls
    policy.grant("alice", rule("list", "configmaps"), namespace="default")
    async with admin.get(CONFIGS, headers={"Impersonate-User": "alice"}) as answer:
        assert answer.status == 200
    assert api.calls["list"][0][0].name == "alice"


async def test_unauthenticated_request_cannot_impersonate(anonymous: ClientSession) -> None:
    async with anonymous.get(CONFIGS, headers={"Impersonate-User": "admin"}) as answer:
        assert answer.status == 401
