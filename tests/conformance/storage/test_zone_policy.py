"""The admission policy for classes that name zones in two places, on kube-apiserver."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import STORAGE_CLASS
from mooring.client.http import HttpClient
from support.builders import class_body
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

POLICY: Final = Path(__file__).parents[3] / "deploy" / "components" / "zone-policy" / "zone-parameters-policy.yaml"
ALLOWED: Final = [{well_known.ZONE: ["a"]}]
BOTH: Final = class_body(
    name="both", provisioner="kubernetes.io/gce-pd", parameters={"zone": "a"}, allowed_topologies=ALLOWED
)


@pytest.fixture(scope="module")
def policy(kube: ControlPlane) -> Iterator[None]:
    kube.kubectl("apply", "-f", str(POLICY))
    yield
    kube.kubectl("delete", "-f", str(POLICY))


async def refusal(client: HttpClient, body: dict[str, Any]) -> str:
    """The server's error for a class; "" if it is accepted, which is then undone."""
    try:
        await client.create(STORAGE_CLASS, body)
    except ApiError as error:
        return error.message
    await client.delete(STORAGE_CLASS, body["metadata"]["name"])
    return ""


async def in_force(client: HttpClient) -> str:
    """Wait until the policy rejects a class, with this message."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if denied := await refusal(client, BOTH):
                return denied
            await asyncio.sleep(0.2)


@pytest.mark.req("T37.both-rejected")
@pytest.mark.version_matrix("kube-apiserver", "manifests", "admission policy for zones")
async def test_class_with_zones_and_topologies_is_rejected(policy: None, client: HttpClient) -> None:
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
@pytest.mark.req("T37.others-accepted")
async def test_other_classes_are_accepted(policy: None, client: HttpClient, body: dict[str, Any]) -> None:
    await in_force(client)
    assert await refusal(client, body) == ""
