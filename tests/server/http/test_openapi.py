"""OpenAPI v3, as far as kubectl reads it."""

from typing import Any

import pytest
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


def references(value: object) -> set[str]:
    """Every schema that is referred to somewhere below."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(item) for item in value.values()))
    return set().union(*(references(item) for item in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("served", kinds.GROUP_VERSIONS, ids=lambda served: "/".join(served))
async def test_documents_are_whole(admin: ClientSession, served: tuple[str, str]) -> None:
    """Every kind has a schema that names it, and whatever a schema refers to is there."""
    group, version = served
    document, _ = await fetched(admin, f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}")
    schemas = document["components"]["schemas"]
    named = [row for schema in schemas.values() for row in schema.get("x-kubernetes-group-version-kind", [])]
    expected = [k.kind for k in kinds.KINDS if (k.group, k.version) == served]
    assert sorted(row["kind"] for row in named) == sorted(expected)
    assert references(schemas) <= {f"#/components/schemas/{name}" for name in schemas}


async def schema(admin: ClientSession, name: str) -> dict[str, Any]:
    document, _ = await fetched(admin, "/openapi/v3/api/v1")
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


@pytest.mark.parametrize(
    ("owner", "field", "expected"),
    [
        pytest.param(
            "io.k8s.api.core.v1.Pod",
            "spec",
            {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]},
            id="an object",
        ),
        pytest.param("io.k8s.api.core.v1.PodSpec", "nodeName", {"type": "string"}, id="a string"),
        pytest.param(
            "io.k8s.api.core.v1.PodSpec",
            "nodeSelector",
            {"type": "object", "additionalProperties": {"type": "string"}},
            id="a map",
        ),
        pytest.param(
            "io.k8s.api.core.v1.ResourceRequirements",
            "limits",
            {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            },
            id="amounts",
        ),
        pytest.param(
            "io.k8s.api.core.v1.Container",
            "ports",
            {
                "type": "array",
                "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
                "description": "A strategic merge patch identifies items by containerPort.",
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "containerPort",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            },
            id="a list of items with keys",
        ),
        pytest.param(
            "io.k8s.api.core.v1.Volume",
            "emptyDir",
            {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.EmptyDirVolumeSource"}]},
            id="what is inline in the types",
        ),
    ],
)
async def test_fields(admin: ClientSession, owner: str, field: str, expected: dict[str, Any]) -> None:
    assert (await schema(admin, owner))["properties"][field] == expected


async def test_what_must_be_there(admin: ClientSession) -> None:
    assert (await schema(admin, "io.k8s.api.core.v1.Container"))["required"] == ["name"]


async def test_version_2_is_an_empty_document_for_kubectl(admin: ClientSession) -> None:
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with admin.get("/openapi/v2", headers={"Accept": asked}) as answer:
        assert answer.headers["Content-Type"] == asked.replace("@", ".")
        assert await answer.read() == b"\x0a\x032.0\x12\x1d\x0a\x0aKubernetes\x12\x0fv1.37.1+mooring"


async def test_version_2_in_json_is_not_served(admin: ClientSession) -> None:
    async with admin.get("/openapi/v2") as answer:
        assert answer.status == 404
