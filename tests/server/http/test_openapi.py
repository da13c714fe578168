"""OpenAPI v3, as far as kubectl's validation reads it."""

from typing import Any

from aiohttp import ClientSession

from mooring.api import kinds


async def fetched(client: ClientSession, path: str) -> tuple[Any, str]:
    async with client.get(path) as answer:
        assert answer.status == 200
        return await answer.json(), answer.headers["Cache-Control"]


async def test_the_index_names_every_group_version_by_its_hash(admin: ClientSession) -> None:
    index, cached = await fetched(admin, "/openapi/v3")
    assert set(index["paths"]) == {kind.root.removeprefix("/") for kind in kinds.KINDS}
    assert "immutable" not in cached
    for place, entry in index["paths"].items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{place}?hash=")


async def test_every_kind_says_that_the_server_validates(admin: ClientSession) -> None:
    index, _ = await fetched(admin, "/openapi/v3")
    found = set()
    for entry in index["paths"].values():
        document, cached = await fetched(admin, entry["serverRelativeURL"])
        assert cached == "public, immutable"
        assert document["openapi"].startswith("3.")
        for path, operations in document["paths"].items():
            patch = operations["patch"]
            assert [parameter["name"] for parameter in patch["parameters"]] == ["fieldValidation"]
            named = patch["x-kubernetes-group-version-kind"]
            found.add((named["group"], named["version"], named["kind"], path))
    assert found == {
        (kind.group, kind.version, kind.kind, kind.path(namespace="{namespace}", name="{name}")) for kind in kinds.KINDS
    }


async def test_version_2_is_an_empty_document_for_kubectl(admin: ClientSession) -> None:
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with admin.get("/openapi/v2", headers={"Accept": asked}) as answer:
        assert answer.headers["Content-Type"] == asked.replace("@", ".")
        assert await answer.read() == b"\x0a\x032.0\x12\x1d\x0a\x0aKubernetes\x12\x0fv1.36.4+mooring"


async def test_version_2_in_json_is_not_served(admin: ClientSession) -> None:
    async with admin.get("/openapi/v2") as answer:
        assert answer.status == 404
