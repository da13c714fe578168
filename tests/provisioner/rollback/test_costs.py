"""What provisioner and janitor cost: lists and scans that do not grow with the cluster."""

from collections import Counter

import pytest

from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.storage import Claim
from mooring.csi.contract import ControllerCapability
from mooring.provisioner.provision.create import DRIVER_LABEL
from mooring.provisioner.rollback.lost_nodes import POLL_INTERVAL_SECONDS, LostNodeController
from mooring.volumes.holds.objects import intent_name
from mooring.volumes.holds.transitions import Intent, IntentPhase, to_data
from provisioner.rollback.test_lost_nodes import OURS
from support.builders import attachment_body, claim_body, volume_body
from support.csi_drivers.recording import DRIVER, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient, scanned
from support.provisioner.cluster import GI, all_gone, ask, bound, furnish, plane_of, selected

ROUNDS = 10


def unusable_node(*, claims: int, being_made: bool, volumes: int = 0) -> Counter[str]:
    """The janitor's requests in ten rounds, while the node of so many claims is gone."""
    requests: Counter[str] = Counter()

    async def record(plane: Plane, claim: Claim) -> None:
        labels = {DRIVER_LABEL: DRIVER}
        body = {"metadata": {"name": intent_name(claim.uid), "namespace": "default", "labels": labels}}
        await plane.create(CONFIG_MAP, body | {"data": to_data(Intent(0, "node-1", IntentPhase.CREATING))})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        for number in range(volumes):
            await plane.create(VOLUME, volume_body(name=f"other-{number}"))
        for number in range(claims):
            claim = await ask(plane, f"claim-{number}", annotations=OURS)
            if being_made:
                await record(plane, claim)
        await plane.pass_time(1.0)
        requests.clear()
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(ROUNDS * POLL_INTERVAL_SECONDS)
        kept = await selected(plane, "claim-0")
        assert (kept == "node-1") is being_made

    run_plane([LostNodeController], scenario, client=lambda api, user: CountingClient(api, user, requests))
    return requests


def test_volumes_are_listed_once_for_all_stranded_claims() -> None:
    few, many = (unusable_node(claims=number, being_made=False) for number in (4, 8))
    assert few[f"list {VOLUME.plural}"] == many[f"list {VOLUME.plural}"] == 1


def test_volumes_are_not_listed_for_claims_in_provisioning() -> None:
    few, many = (unusable_node(claims=number, being_made=True) for number in (4, 8))
    for requests in (few, many):
        assert not requests[f"list {VOLUME.plural}"]
        assert not requests[f"list {CONFIG_MAP.plural}"]
    assert many[f"get {CONFIG_MAP.plural}"] <= 2 * few[f"get {CONFIG_MAP.plural}"]


def deletions(monkeypatch: pytest.MonkeyPatch, attachments: int) -> Counter[str]:
    """What is looked at in caches until a volume is deleted, beside so many attachments of others."""
    driver = FakeCsiDriver({"node-1": 10 * GI})
    driver.able |= {ControllerCapability.PUBLISH_UNPUBLISH_VOLUME}

    async def scenario(plane: Plane) -> Counter[str]:
        await furnish(plane)
        for number in range(attachments):
            body = attachment_body(name=f"va-{number}", volume=f"other-{number}", node="node-2")
            await plane.create(VOLUME_ATTACHMENT, body)
        await plane.create(CLAIM, claim_body(name="claim-1", storage_class="made", selected_node="node-1"))
        await plane.until(lambda: bound(plane), within=30.0)
        with monkeypatch.context() as patched:
            seen = scanned(patched)
            await plane.client.delete(CLAIM, "claim-1", namespace="default")
            await plane.until(lambda: all_gone(plane), within=60.0)
            return seen

    return run_plane(plane_of(driver), scenario)


def test_deleting_a_volume_does_not_scan_attachments(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (deletions(monkeypatch, number)[VOLUME_ATTACHMENT.plural] for number in (20, 40))
    assert few == many == 0
