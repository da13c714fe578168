"""Requests to both servers about versions, pages, watches and subresources.

Data for `test_api_differential`, beside `api_requests`. Each conversation begins with objects of its own.
"""

from collections.abc import Iterator
from typing import Final

from mooring.api.kinds import (
    CONFIG_MAP,
    CSI_NODE,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    POD_GROUP,
    POD_GROUP_ALPHA,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
)
from mooring.api.kinds import NAMESPACE as NAMESPACES
from mooring.api.views.meta import ApiObject
from support.conformance.api_requests import MERGE, NAMESPACE, STRATEGIC, TABLE, body_of, place
from support.conformance.server_pair import Json, Request

#: A version that neither server reaches in these tests.
FUTURE: Final = 10**12
CONFIGS: Final = place(CONFIG_MAP)


def reading() -> Iterator[Request]:
    """Versions and pages; results that depend on a server's own versions are compared as far as possible."""

    def make_request(label: str, query: str, path: str = CONFIGS) -> Request:
        return Request(f"reading: {label}", "GET", f"{path}?{query}")

    for name in ("r1", "r2", "r3"):
        yield Request(f"reading: create {name}", "POST", CONFIGS, body_of(CONFIG_MAP, name))
    for index, version in enumerate(("0", "00", "-1", "abc", "9" * 30)):
        claiming = body_of(CONFIG_MAP, f"v{index}", ("metadata.resourceVersion", version))
        yield Request(f"reading: create with the version {version}", "POST", CONFIGS, claiming)
    yield make_request("a page", "limit=2")
    yield make_request("a page by name", "limit=2&fieldSelector=metadata.name%21%3Dr1")
    yield make_request("any version with a limit", "limit=1&resourceVersion=0")
    yield make_request("a negative limit", "limit=-1")
    yield make_request("a version to come", f"resourceVersion={FUTURE}")
    yield make_request("exactly a version to come", f"resourceVersion={FUTURE}&resourceVersionMatch=Exact")
    yield make_request("one object at a version to come", f"resourceVersion={FUTURE}", f"{CONFIGS}/r1")
    yield make_request("one object at any version", "resourceVersion=0", f"{CONFIGS}/r1")
    yield make_request("one object at no version", "resourceVersion=abc", f"{CONFIGS}/r1")
    yield make_request("exactly any version", "resourceVersion=0&resourceVersionMatch=Exact")
    yield make_request("an odd match", "resourceVersion=5&resourceVersionMatch=Odd")
    yield make_request("a match with a token", "resourceVersionMatch=Exact&continue=x")
    yield make_request("initial events of a list", "sendInitialEvents=true")
    yield make_request("a namespace that is not there", "limit=5", CONFIGS.replace(NAMESPACE, "nowhere"))
    yield make_request("a watch without what it needs", "watch=1&sendInitialEvents=true")
    yield make_request("a watch with a match", "watch=1&resourceVersionMatch=NotOlderThan")
    yield make_request("a watch from no version", "watch=1&resourceVersion=abc")
    yield make_request(
        "a watch with its beginning",
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        "&fieldSelector=metadata.name%3Dr1",
    )
    for version in ("", "0"):
        yield make_request(
            f"a watch from {version or 'now'} with bookmarks",
            f"watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={version}"
            "&fieldSelector=metadata.name%3Dr1",
        )
    yield make_request("a version beyond all numbers", f"resourceVersion={'9' * 30}")
    yield make_request("a watch of what is there", "watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dr2")
    yield make_request("an object that is watched", "watch=1", f"{CONFIGS}/r1")
    yield make_request("a group that is not there", "", "/apis/nothing.io/v1/things")
    yield make_request("a resource that is not there", "", "/api/v1/namespaces/default/things")
    yield make_request("a version of the API that is not there", "", "/api/v9/pods")


def subresources() -> Iterator[Request]:
    def make_request(
        label: str, method: str, path: str, body: Json = None, *, headers: dict[str, str] | None = None
    ) -> Request:
        return Request(f"subresources: {label}", method, path, body, headers or {})

    def binding(node: str, **metadata: str) -> Json:
        target = {"kind": "Node", "name": node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "s", **metadata}, "target": target}

    pod, bind = place(POD, "s"), place(POD, "s", "binding")
    yield make_request("create a pod", "POST", place(POD), body_of(POD, "s"))
    yield make_request("bind to nothing", "POST", bind, binding(""))
    yield make_request("bind to a name that is none", "POST", bind, binding("../x"))
    yield make_request("bind another pod", "POST", bind, binding("n", uid="other"))
    yield make_request("bind dry", "POST", f"{bind}?dryRun=All", binding("n"))
    yield make_request("bind", "POST", bind, binding("n"))
    yield make_request("bind again", "POST", bind, binding("m"))
    yield make_request("bind what is not there", "POST", place(POD, "never", "binding"), binding("n"))
    yield make_request("get a binding", "GET", bind)
    yield make_request("the pod that was bound", "GET", pod)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    yield make_request("run", "PATCH", place(POD, "s", "status"), running, headers=STRATEGIC)
    yield make_request(
        "a status with a bad label",
        "PATCH",
        place(POD, "s", "status"),
        {"metadata": {"labels": {"a": "b c"}}},
        headers=MERGE,
    )
    yield make_request(
        "a spec by the status", "PATCH", place(POD, "s", "status"), {"spec": {"nodeName": "z"}}, headers=MERGE
    )

    evict, eviction = (
        place(POD, "s", "eviction"),
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "s"}},
    )
    yield make_request("evict under another name", "POST", evict, eviction | {"metadata": {"name": "t"}})
    yield make_request("evict dry", "POST", f"{evict}?dryRun=All", eviction)
    yield make_request("label the pod", "PATCH", pod, {"metadata": {"labels": {"app": "a"}}}, headers=MERGE)
    yield make_request("a budget", "POST", place(DISRUPTION_BUDGET), body_of(DISRUPTION_BUDGET, "s"))
    yield make_request("evict under a budget without status", "POST", evict, eviction)
    seen = {"status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}
    yield make_request("look at the budget", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), seen, headers=MERGE)
    yield make_request("evict against the budget", "POST", evict, eviction)
    crowd = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    unconfirmed = {"status": {"disruptedPods": crowd}}
    yield make_request("many evictions", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), unconfirmed, headers=MERGE)
    yield make_request("evict after many evictions", "POST", evict, eviction)
    confirmed = {"status": {"disruptedPods": None}}
    yield make_request("evictions done", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), confirmed, headers=MERGE)
    allowance = {"status": {"disruptionsAllowed": 1, "currentHealthy": 2}}
    yield make_request(
        "disruptions allowed", "PATCH", place(DISRUPTION_BUDGET, "s", "status"), allowance, headers=MERGE
    )
    yield make_request("evict within the budget", "POST", evict, eviction)
    yield make_request("the budget afterwards", "GET", place(DISRUPTION_BUDGET, "s"))
    yield make_request("the pod that was evicted", "GET", pod)
    yield make_request(
        "evict what is not there", "POST", place(POD, "never", "eviction"), eviction | {"metadata": {"name": "never"}}
    )

    for name, own, asked in (("g", 1 << 62, None), ("h", 30, 300_000_000_000), ("i", 300_000_000_000, -1)):
        lasting = body_of(POD, name, ("spec.nodeName", "n"), ("spec.terminationGracePeriodSeconds", own))
        yield make_request(f"a pod with {own} seconds of grace", "POST", place(POD), lasting)
        options = None if asked is None else {"gracePeriodSeconds": asked}
        yield make_request(f"delete it with {asked} seconds of grace", "DELETE", place(POD, name), options)
        yield make_request("delete it sooner", "DELETE", place(POD, name), {"gracePeriodSeconds": 10})
        yield make_request("delete it now", "DELETE", place(POD, name), {"gracePeriodSeconds": 0})

    for kind in (DEPLOYMENT, STATEFUL_SET):
        scale = place(kind, "s", "scale")
        yield make_request(f"create {kind.plural}", "POST", place(kind), body_of(kind, "s"))
        yield make_request(f"get the scale of {kind.plural}", "GET", scale)
        yield make_request(f"scale {kind.plural}", "PATCH", scale, {"spec": {"replicas": 3}}, headers=MERGE)
        yield make_request(
            f"scale {kind.plural} below nothing", "PATCH", scale, {"spec": {"replicas": -1}}, headers=MERGE
        )
        yield make_request(
            f"scale {kind.plural} dry", "PATCH", f"{scale}?dryRun=All", {"spec": {"replicas": 9}}, headers=MERGE
        )
        put = {"metadata": {"name": "s", "namespace": NAMESPACE}, "spec": {"replicas": 2}}
        yield make_request(f"replace the scale of {kind.plural}", "PUT", scale, put)
        yield make_request(f"{kind.plural} afterwards", "GET", place(kind, "s"))
    yield make_request("a scale of nothing", "GET", place(DEPLOYMENT, "never", "scale"))

    yield make_request("a namespace", "POST", "/api/v1/namespaces", body_of(NAMESPACES, "s"))
    yield make_request("delete the namespace", "DELETE", "/api/v1/namespaces/s")
    yield make_request("create where it goes", "POST", "/api/v1/namespaces/s/configmaps", body_of(CONFIG_MAP, "a"))
    yield make_request(
        "create in no namespace", "POST", "/api/v1/namespaces/nowhere/configmaps", body_of(CONFIG_MAP, "a")
    )
    yield make_request("finalize", "PUT", "/api/v1/namespaces/s/finalize", body_of(NAMESPACES, "s") | {"spec": {}})
    yield make_request("the namespace afterwards", "GET", "/api/v1/namespaces/s")
    yield make_request("delete what always stays", "DELETE", "/api/v1/namespaces/kube-system")
    yield make_request("delete all namespaces", "DELETE", "/api/v1/namespaces")
    yield make_request(
        "create nodes in a namespace", "POST", f"/api/v1/namespaces/{NAMESPACE}/nodes", body_of(NODE, "x")
    )
    yield make_request("create pods nowhere", "POST", "/api/v1/pods", body_of(POD, "x"))


def storage() -> Iterator[Request]:
    """Tables of classes with several defaults, and what the endpoints of a CSINode write."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in ("table-b", "table-a", "table-c"):
        body = body_of(STORAGE_CLASS, name, ("metadata.labels", {"table": "yes"}))
        if name != "table-c":
            body["metadata"]["annotations"] = annotations
        yield Request(f"storage: create {name}", "POST", place(STORAGE_CLASS), body)
    selected = f"{place(STORAGE_CLASS)}?labelSelector=table%3Dyes"
    yield Request("storage: classes as a table", "GET", selected, headers=TABLE)
    yield Request("storage: a default class as a table", "GET", place(STORAGE_CLASS, "table-a"), headers=TABLE)

    health = {"storageHealth": [{"name": "d.io", "healthConditions": [{"status": "StorageDegraded", "reason": "R"}]}]}
    one, status = place(CSI_NODE, "health"), place(CSI_NODE, "health", "status")
    yield Request(
        "storage: create a CSINode with a status",
        "POST",
        place(CSI_NODE),
        body_of(CSI_NODE, "health", ("status", health)),
    )
    yield Request("storage: patch its status", "PATCH", status, {"status": health}, headers=MERGE)
    labels = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"drivers": []}}
    yield Request("storage: patch all else by its status", "PATCH", status, labels, headers=MERGE)
    yield Request("storage: get its status", "GET", status)
    yield Request("storage: get the CSINode", "GET", one)


def pod_addresses() -> Iterator[Request]:
    """`podIP` and `podIPs` of a pod's status, which must agree."""
    yield Request("pod addresses: create", "POST", place(POD), body_of(POD, "ips", ("spec.nodeName", "n")))
    given: tuple[Json, ...] = (
        {"podIP": "10.0.0.1"},
        {"podIP": None, "podIPs": [{"ip": "10.0.0.2"}]},
        {"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.4"}]},
        {"podIP": "10.0.0.5", "podIPs": [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}]},
        {"podIP": None, "podIPs": None},
    )
    for number, status in enumerate(given):
        where = place(POD, "ips", "status")
        yield Request(f"pod addresses: status {number}", "PATCH", where, {"status": status}, headers=MERGE)


def sparse_statuses() -> Iterator[Request]:
    """Statuses with few fields, as components write them: generated clients reject objects without the fields that Go
    sends even when empty.
    """
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


def group_statuses() -> Iterator[Request]:
    """Conditions of a PodGroup, through both versions, as the scheduler writes them and with every mistake."""
    now = "2026-01-02T03:04:05Z"
    told = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    told["lastTransitionTime"] = now
    statuses: list[tuple[str, Json]] = [
        ("unschedulable", {"conditions": [told]}),
        ("scheduled", {"conditions": [told | {"status": "True", "reason": "Scheduled", "message": ""}]}),
        ("disrupted", {"conditions": [told, told | {"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]}),
        ("one type twice", {"conditions": [told, told]}),
        ("no type", {"conditions": [told | {"type": ""}]}),
        ("an odd type", {"conditions": [told | {"type": "a b"}]}),
        ("no status", {"conditions": [told | {"status": ""}]}),
        ("an odd status", {"conditions": [told | {"status": "Odd"}]}),
        ("no reason", {"conditions": [told | {"reason": ""}]}),
        ("an odd reason", {"conditions": [told | {"reason": "a b"}]}),
        ("a long reason", {"conditions": [told | {"reason": "a" * 1025}]}),
        ("a long message", {"conditions": [told | {"message": "a" * 32769}]}),
        ("no time", {"conditions": [{key: value for key, value in told.items() if key != "lastTransitionTime"}]}),
        ("a negative generation", {"conditions": [told | {"observedGeneration": -1}]}),
        ("devices", {"conditions": [], "resourceClaimStatuses": [{"name": "r"}]}),
    ]
    for kind in (POD_GROUP, POD_GROUP_ALPHA):
        name = f"told-{kind.version}"
        yield Request(f"group statuses: {name}, created", "POST", place(kind), body_of(kind, name))
        for label, status in statuses:
            change = {"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 4}, "status": status}
            one = place(kind, name, "status")
            yield Request(f"group statuses: {label} ({kind.version})", "PATCH", one, change, headers=MERGE)
            yield Request(f"group statuses: {label}, as a table", "GET", place(kind, name), headers=TABLE)
        yield Request(f"group statuses: {name}, read", "GET", place(kind, name))
        yield Request(f"group statuses: {name}, deleted", "DELETE", place(kind, name))
