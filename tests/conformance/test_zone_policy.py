"""The policy we ship for classes that name zones in two places, on the real API server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from builders import class_body
from conformance.control_plane import ControlPlane
from conformance.waiting import PATIENCE
from mooring.api import keys
from mooring.api.errors import ApiError
from mooring.api.kinds import STORAGE_CLASS
from mooring.client.http import HttpClient

POLICY: Final = Path(__file__).parents[2] / "deploy" / "components" / "zone-policy" / "zone-parameters-policy.yaml"
ALLOWED: Final = [{keys.ZONE: ["a"]}]
BOTH: Final = class_body(
    name="both", provisioner="kubernetes.io/gce-pd", parameters={"zone": "a"}, allowed_topologies=ALLOWED
)


@pytest.fixture(scope="module")
def policy(kube: ControlPlane) -> Iterator[None]:
    kube.kubectl("apply", "-f", str(POLICY))
    yield
    kube.kubectl("delete", "-f", str(POLICY))


async def refusal(client: HttpClient, body: dict[str, Any]) -> str:
    """What the server says against a class; "" if it takes it, which is then undone."""
    try:
        await client.create(STORAGE_CLASS, body)
    except ApiError as error:
        return error.message
    await client.delete(STORAGE_CLASS, body["metadata"]["name"])
    return ""


async def in_force(client: HttpClient) -> str:
    """Wait until the policy refuses something; with these words."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if said := await refusal(client, BOTH):
                return said
            await asyncio.sleep(0.2)


@pytest.mark.req("T37")
async def test_class_that_says_it_twice_is_refused(policy: None, client: HttpClient) -> None:
    assert "use allowedTopologies alone" in await in_force(client)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            class_body(name="zones", provisioner="kubernetes.io/gce-pd", parameters={"zones": "a,b"}), id="zones"
        ),
        pytest.param(
            class_body(
                name="topologies",
                provisioner="kubernetes.io/gce-pd",
                parameters={"type": "pd-ssd"},
                allowed_topologies=ALLOWED,
            ),
            id="topologies",
        ),
        pytest.param(
            class_body(name="other", provisioner="x.io", parameters={"zone": "a"}, allowed_topologies=ALLOWED),
            id="a parameter of another provisioner",
        ),
    ],
)
@pytest.mark.req("T37")
async def test_other_classes_are_taken(policy: None, client: HttpClient, body: dict[str, Any]) -> None:
    await in_force(client)
    assert await refusal(client, body) == ""
