"""What both servers are asked beyond single objects: versions, pages, watches, and the subresources.

Data for `test_api_differential`, beside `api_requests`. Each conversation begins with objects of its own.
"""

from collections.abc import Iterator
from typing import Final

from conformance.api_requests import MERGE, NAMESPACE, STRATEGIC, body_of, place
from conformance.both_servers import Json, Request
from mooring.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    STATEFUL_SET,
    Kind,
)
from mooring.api.kinds import (
    NAMESPACE as NAMESPACES,
)
from mooring.api.views.meta import ApiObject

#: A version that neither server reaches in these tests.
FUTURE: Final = 10**12
CONFIGS: Final = place(CONFIG_MAP)


def reading() -> Iterator[Request]:
    """Versions and pages; what depends on a server's own versions is looked at as far as it does not."""

    def ask(label: str, query: str, path: str = CONFIGS) -> Request:
        return Request(f"reading: {label}", "GET", f"{path}?{query}")

    for name in ("r1", "r2", "r3"):
        yield Request(f"reading: create {name}", "POST", CONFIGS, body_of(CONFIG_MAP, name))
    for index, version in enumerate(("0", "00", "-1", "abc", "9" * 30)):
        claiming = body_of(CONFIG_MAP, f"v{index}", ("metadata.resourceVersion", version))
        yield Request(f"reading: create with the version {version}", "POST", CONFIGS, claiming)
    yield ask("a page", "limit=2")
    yield ask("a page by name", "limit=2&fieldSelector=metadata.name%21%3Dr1")
    yield ask("any version with a limit", "limit=1&resourceVersion=0")
    yield ask("a negative limit", "limit=-1")
    yield ask("a version to come", f"resourceVersion={FUTURE}")
    yield ask("exactly a version to come", f"resourceVersion={FUTURE}&resourceVersionMatch=Exact")
    yield ask("one object at a version to come", f"resourceVersion={FUTURE}", f"{CONFIGS}/r1")
    yield ask("one object at any version", "resourceVersion=0", f"{CONFIGS}/r1")
    yield ask("one object at no version", "resourceVersion=abc", f"{CONFIGS}/r1")
    yield ask("exactly any version", "resourceVersion=0&resourceVersionMatch=Exact")
    yield ask("an odd match", "resourceVersion=5&resourceVersionMatch=Odd")
    yield ask("a match with a token", "resourceVersionMatch=Exact&continue=x")
    yield ask("initial events of a list", "sendInitialEvents=true")
    yield ask("a namespace that is not there", "limit=5", CONFIGS.replace(NAMESPACE, "nowhere"))
    yield ask("a watch without what it needs", "watch=1&sendInitialEvents=true")
    yield ask("a watch with a match", "watch=1&resourceVersionMatch=NotOlderThan")
    yield ask("a watch from no version", "watch=1&resourceVersion=abc")
    yield ask(
        "a watch with its beginning",
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        "&fieldSelector=metadata.name%3Dr1",
    )
    for version in ("", "0"):
        yield ask(
            f"a watch from {version or 'now'} with bookmarks",
            f"watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={version}"
            "&fieldSelector=metadata.name%3Dr1",
        )
    yield ask("a version beyond all numbers", f"resourceVersion={'9' * 30}")
    yield ask("a watch of what is there", "watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dr2")
    yield ask("an object that is watched", "watch=1", f"{CONFIGS}/r1")
    yield ask("a group that is not there", "", "/apis/nothing.io/v1/things")
    yield ask("a resource that is not there", "", "/api/v1/namespaces/default/things")
    yield ask("a version of the API that is not there", "", "/api/v9/pods")


def subresources() -> Iterator[Request]:
    def ask(label: str, method: str, path: str, body: Json = None, *, headers: dict[str, str] | None = None) -> Request:
        return Request(f"subresources: {label}", method, path, body, headers or {})

    def binding(node: str, **metadata: str) -> Json:
        target = {"kind": "Node", "name": node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "s", **metadata}, "target": target}

    pod, bind = place(POD, "s"), place(POD, "s", "binding")
    yield ask("create a pod", "POST", place(POD), body_of(POD, "s"))
    yield ask("bind to nothing", "POST", bind, binding(""))
    yield ask("bind another pod", "POST", bind, binding("n", uid="other"))
    yield ask("bind dry", "POST", f"{bind}?dryRun=All", binding("n"))
    yield ask("bind", "POST", bind, binding("n"))
    yield ask("bind again", "POST", bind, binding("m"))
    yield ask("bind what is not there", "POST", place(POD, "never", "binding"), binding("n"))
    yield ask("get a binding", "GET", bind)
    yield ask("the pod that was bound", "GET", pod)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    yield ask("run", "PATCH", place(POD, "s", "status"), running, headers=STRATEGIC)
    yield ask(
        "a status with a bad label",
        "PATCH",
        place(POD, "s", "status"),
        {"metadata": {"labels": {"a": "b c"}}},
        headers=MERGE,
    )
    yield ask("a spec by the status", "PATCH", place(POD, "s", "status"), {"spec": {"nodeName": "z"}}, headers=MERGE)

    evict, eviction = (
        place(POD, "s", "eviction"),
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "s"}},
    )
    yield ask("evict under another name", "POST", evict, eviction | {"metadata": {"name": "t"}})
    yield ask("evict dry", "POST", f"{evict}?dryRun=All", eviction)
    yield ask("label the pod", "PATCH", pod, {"metadata": {"labels": {"app": "a"}}}, headers=MERGE)
    yield ask("a budget", "POST", place(DISRUPTION_BUDGET), body_of(DISRUPTION_BUDGET, "s"))
    yield ask("evict under a budget nobody looked at", "POST", evict, eviction)
    seen = {"status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}
    yield ask("look at the budget", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), seen, headers=MERGE)
    yield ask("evict against the budget", "POST", evict, eviction)
    room = {"status": {"disruptionsAllowed": 1, "currentHealthy": 2}}
    yield ask("room in the budget", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), room, headers=MERGE)
    yield ask("evict within the budget", "POST", evict, eviction)
    yield ask("the budget afterwards", "GET", place(DISRUPTION_BUDGET, "s"))
    yield ask("the pod that was evicted", "GET", pod)
    yield ask(
        "evict what is not there", "POST", place(POD, "never", "eviction"), eviction | {"metadata": {"name": "never"}}
    )

    for name, own, asked in (("g", 1 << 62, None), ("h", 30, 300_000_000_000), ("i", 300_000_000_000, -1)):
        lasting = body_of(POD, name, ("spec.nodeName", "n"), ("spec.terminationGracePeriodSeconds", own))
        yield ask(f"a pod with {own} seconds of grace", "POST", place(POD), lasting)
        wish = None if asked is None else {"gracePeriodSeconds": asked}
        yield ask(f"delete it with {asked} seconds of grace", "DELETE", place(POD, name), wish)
        yield ask("delete it sooner", "DELETE", place(POD, name), {"gracePeriodSeconds": 10})
        yield ask("delete it now", "DELETE", place(POD, name), {"gracePeriodSeconds": 0})

    for kind in (DEPLOYMENT, STATEFUL_SET):
        scale = place(kind, "s", "scale")
        yield ask(f"create {kind.plural}", "POST", place(kind), body_of(kind, "s"))
        yield ask(f"get the scale of {kind.plural}", "GET", scale)
        yield ask(f"scale {kind.plural}", "PATCH", scale, {"spec": {"replicas": 3}}, headers=MERGE)
        yield ask(f"scale {kind.plural} below nothing", "PATCH", scale, {"spec": {"replicas": -1}}, headers=MERGE)
        yield ask(f"scale {kind.plural} dry", "PATCH", f"{scale}?dryRun=All", {"spec": {"replicas": 9}}, headers=MERGE)
        put = {"metadata": {"name": "s", "namespace": NAMESPACE}, "spec": {"replicas": 2}}
        yield ask(f"replace the scale of {kind.plural}", "PUT", scale, put)
        yield ask(f"{kind.plural} afterwards", "GET", place(kind, "s"))
    yield ask("a scale of nothing", "GET", place(DEPLOYMENT, "never", "scale"))

    yield ask("a namespace", "POST", "/api/v1/namespaces", body_of(NAMESPACES, "s"))
    yield ask("delete the namespace", "DELETE", "/api/v1/namespaces/s")
    yield ask("create where it goes", "POST", "/api/v1/namespaces/s/configmaps", body_of(CONFIG_MAP, "a"))
    yield ask("create in no namespace", "POST", "/api/v1/namespaces/nowhere/configmaps", body_of(CONFIG_MAP, "a"))
    yield ask("finalize", "PUT", "/api/v1/namespaces/s/finalize", body_of(NAMESPACES, "s") | {"spec": {}})
    yield ask("the namespace afterwards", "GET", "/api/v1/namespaces/s")
    yield ask("delete what always stays", "DELETE", "/api/v1/namespaces/kube-system")
    yield ask("delete all namespaces", "DELETE", "/api/v1/namespaces")
    yield ask("create nodes in a namespace", "POST", f"/api/v1/namespaces/{NAMESPACE}/nodes", body_of(NODE, "x"))
    yield ask("create pods nowhere", "POST", "/api/v1/pods", body_of(POD, "x"))


def sparse_statuses() -> Iterator[Request]:
    """Statuses with few fields, as components write them: generated clients refuse objects without the fields that Go
    sends although they are empty."""
    sparse: list[tuple[Kind[ApiObject], Json]] = [
        (NODE, {"nodeInfo": {"kubeletVersion": "v1"}, "conditions": [{"type": "Ready", "status": "True"}]}),
        (NODE, {"nodeInfo": {}, "addresses": [{"type": "Hostname", "address": "n"}], "images": [{"names": ["i"]}]}),
        (POD, {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}),
        (POD, {"containerStatuses": [{"name": "c", "state": {"terminated": {}}}], "conditions": [{"type": "Ready"}]}),
        (DEPLOYMENT, {"replicas": 1}),
        (STATEFUL_SET, {"replicas": 1, "observedGeneration": 1}),
        (DISRUPTION_BUDGET, {"currentHealthy": 1}),
    ]
    for number, (kind, status) in enumerate(sparse):
        name = f"sparse-{number}"
        label = f"sparse statuses: {kind.plural} {number}"
        yield Request(f"{label}, created", "POST", place(kind), body_of(kind, name))
        patch: Json = {"status": status}
        yield Request(f"{label}, patched", "PATCH", place(kind, name, "status"), patch, headers=MERGE)
        yield Request(f"{label}, read", "GET", place(kind, name))
