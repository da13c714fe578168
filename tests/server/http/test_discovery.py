"""Discovery over HTTP, plain and aggregated."""

from typing import Any

import pytest
from aiohttp import ClientSession

from mooring.api import kinds

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def fetched(client: ClientSession, path: str, accept: str = "application/json") -> dict[str, Any]:
    async with client.get(path, headers={"Accept": accept}) as answer:
        assert answer.status == 200
        told: dict[str, Any] = await answer.json(content_type=None)
        return told


@pytest.mark.parametrize("path", ["/api", "/api/"])
async def test_the_core_group(admin: ClientSession, path: str) -> None:
    told = await fetched(admin, path)
    assert told == {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


async def test_the_named_groups(admin: ClientSession) -> None:
    told = await fetched(admin, "/apis/")
    assert (told["kind"], told["apiVersion"]) == ("APIGroupList", "v1")
    served = dict.fromkeys(k.group for k in kinds.KINDS if k.group)
    assert [group["name"] for group in told["groups"]] == [*served, "apiextensions.k8s.io"]
    apps = {"groupVersion": "apps/v1", "version": "v1"}
    assert told["groups"][1] == {"name": "apps", "versions": [apps], "preferredVersion": apps}
    assert await fetched(admin, "/apis/apps") == {"kind": "APIGroup", "apiVersion": "v1"} | told["groups"][1]


async def test_resources_of_a_group_version(admin: ClientSession) -> None:
    told = await fetched(admin, "/api/v1")
    assert (told["kind"], told["groupVersion"]) == ("APIResourceList", "v1")
    by_name = {row["name"]: row for row in told["resources"]}
    assert by_name["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert by_name["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert (by_name["pods/binding"]["kind"], by_name["pods/binding"]["verbs"]) == ("Binding", ["create"])
    assert by_name["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "deletecollection" not in by_name["namespaces"]["verbs"]
    assert "configmaps/status" not in by_name


async def test_every_kind_is_in_some_list(admin: ClientSession) -> None:
    found = set()
    for root in {kind.root for kind in kinds.KINDS}:
        told = await fetched(admin, root)
        found |= {(told["groupVersion"], row["kind"]) for row in told["resources"] if "/" not in row["name"]}
    assert found == set(kinds.BY_KIND)


async def test_aggregated_discovery_says_everything_at_once(admin: ClientSession) -> None:
    found = {}
    for path in ("/api", "/apis"):
        async with admin.get(path, headers={"Accept": f"{AGGREGATED},application/json"}) as answer:
            assert answer.headers["Content-Type"] == AGGREGATED
            assert answer.headers["Vary"] == "Accept"
            told = await answer.json(content_type=None)
        assert (told["kind"], told["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        for group in told["items"]:
            for version in group["versions"]:
                assert version["freshness"] == "Current"
                for row in version["resources"]:
                    found[group["metadata"].get("name", ""), version["version"], row["resource"]] = row
    definitions = found.pop(("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
    assert definitions["verbs"] == ["create"], "controllers that list and delete everything leave it out"
    assert set(found) == set(kinds.BY_PLURAL)
    assert found["", "v1", "pods"] == {
        "resource": "pods",
        "responseKind": {"group": "", "version": "v1", "kind": "Pod"},
        "scope": "Namespaced",
        "singularResource": "pod",
        "verbs": list(kinds.FULL),
        "shortNames": ["po"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "", "version": "v1", "kind": "Pod"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "binding",
                "responseKind": {"group": "", "version": "v1", "kind": "Binding"},
                "verbs": ["create"],
            },
            {
                "subresource": "eviction",
                "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
                "verbs": ["create"],
            },
        ],
    }
    assert found["storage.k8s.io", "v1", "storageclasses"]["scope"] == "Cluster"


async def test_only_the_old_aggregated_form_is_not_acceptable(admin: ClientSession) -> None:
    accept = AGGREGATED.replace("v=v2", "v=v2beta1")
    async with admin.get("/apis", headers={"Accept": accept}) as answer:
        assert answer.status == 406


@pytest.mark.parametrize("accept", [AGGREGATED, "application/json"], ids=["aggregated", "plain"])
async def test_unchanged_document_is_not_modified(admin: ClientSession, accept: str) -> None:
    async with admin.get("/apis", headers={"Accept": accept}) as answer:
        tag = answer.headers["ETag"]
    async with admin.get("/apis", headers={"Accept": accept, "If-None-Match": f'"old", {tag}'}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    async with admin.get("/apis", headers={"Accept": accept, "If-None-Match": '"old"'}) as answer:
        assert answer.status == 200
