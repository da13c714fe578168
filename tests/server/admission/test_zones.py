"""Zones at the API server: volumes are placed by their labels, and classes say in one place where volumes go."""

from typing import Any

import pytest

from builders import Body, class_body, node_body, volume_body
from mooring.api import keys
from mooring.api.errors import Forbidden, Invalid
from mooring.api.kinds import NODE, STORAGE_CLASS, VOLUME
from server.harness import Harness

DISK: Body = {"gcePersistentDisk": {"pdName": "my-disk"}}
ZONAL = {keys.ZONE_BETA: "us-central1-a", keys.REGION_BETA: "us-central1"}


@pytest.mark.req("T36")
async def test_new_volume_with_zone_labels_gets_its_affinity(server: Harness) -> None:
    created = await server.create(VOLUME, volume_body(source=DISK, labels=ZONAL))
    [term] = created["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": keys.ZONE_BETA, "operator": "In", "values": ["us-central1-a"]},
        {"key": keys.REGION_BETA, "operator": "In", "values": ["us-central1"]},
    ]
    assert created["metadata"]["labels"] == ZONAL


@pytest.mark.req("T36")
async def test_affinity_is_spelled_so_that_nodes_match(server: Harness) -> None:
    await server.create(NODE, node_body(zone="us-central1-a"))
    created = await server.create(VOLUME, volume_body(source=DISK, labels={keys.ZONE_BETA: "us-central1-a"}))
    [term] = created["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [one["key"] for one in term["matchExpressions"]] == [keys.ZONE]


async def test_volumes_that_say_it_themselves_or_not_at_all_are_left_alone(server: Harness) -> None:
    own = volume_body(name="own", node="node-1", labels=ZONAL)
    assert (await server.create(VOLUME, own))["spec"]["nodeAffinity"] == own["spec"]["nodeAffinity"]
    plain = await server.create(VOLUME, volume_body(name="plain", source=DISK))
    assert "nodeAffinity" not in plain["spec"]
    with pytest.raises(Invalid, match="Local volume requires node affinity"):
        await server.create(VOLUME, volume_body(name="local", labels=ZONAL))


ALLOWED = [{keys.ZONE: ["a"]}]
GCE = "kubernetes.io/gce-pd"


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        pytest.param({"parameters": {"zone": "a"}, "allowed_topologies": ALLOWED}, True, id="zone and topologies"),
        pytest.param({"parameters": {"zones": "a,b"}, "allowed_topologies": ALLOWED}, True, id="zones and topologies"),
        pytest.param({"parameters": {"zones": "a,b"}}, False, id="zones alone"),
        pytest.param({"parameters": {"type": "pd-ssd"}, "allowed_topologies": ALLOWED}, False, id="topologies alone"),
        pytest.param(
            {"parameters": {"zone": "a"}, "allowed_topologies": ALLOWED, "provisioner": "x.io"},
            False,
            id="a parameter of another provisioner",
        ),
    ],
)
@pytest.mark.req("T37")
async def test_class_that_says_it_twice_is_refused(server: Harness, given: dict[str, Any], refused: bool) -> None:
    body = class_body(**({"provisioner": GCE} | given))
    if refused:
        with pytest.raises(Forbidden, match="use allowedTopologies alone"):
            await server.create(STORAGE_CLASS, body)
    else:
        await server.create(STORAGE_CLASS, body)


@pytest.mark.req("T37")
async def test_topologies_cannot_be_added_beside_zones_later(server: Harness) -> None:
    stored = await server.create(STORAGE_CLASS, class_body(provisioner=GCE, parameters={"zone": "a"}))
    topologies = class_body(allowed_topologies=ALLOWED)["allowedTopologies"]
    with pytest.raises(Forbidden, match="use allowedTopologies alone"):
        await server.update(STORAGE_CLASS, stored | {"allowedTopologies": topologies})
