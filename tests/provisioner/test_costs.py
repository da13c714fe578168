"""What provisioner and janitor cost: lists and scans that do not grow with the cluster."""

from collections import Counter

import pytest

from builders import attachment_body, claim_body, volume_body
from mooring.api.kinds import CLAIM, CONFIG_MAP, NODE, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.claim import Claim
from mooring.csi.contract import ControllerCapability
from mooring.provisioner.janitor import LOOK_SECONDS, SelectedNodeJanitor
from mooring.provisioner.unfinished import DRIVER_LABEL
from mooring.volumes.holds.intent import Intent, Phase, to_data
from mooring.volumes.holds.objects import intent_name
from partial_plane import Plane, run_plane
from partial_plane.counting import CountingClient, scanned
from provisioner.paper_driver import DRIVER, PaperDriver
from provisioner.test_janitor import OURS
from provisioner.world import GI, all_gone, ask, bound, furnish, plane_of, selected

ROUNDS = 10


def stranded(*, claims: int, being_made: bool, volumes: int = 0) -> Counter[str]:
    """The janitor's requests in ten rounds, while the node of so many claims is gone."""
    requests: Counter[str] = Counter()

    async def record(plane: Plane, claim: Claim) -> None:
        labels = {DRIVER_LABEL: DRIVER}
        body = {"metadata": {"name": intent_name(claim.uid), "namespace": "default", "labels": labels}}
        await plane.create(CONFIG_MAP, body | {"data": to_data(Intent(0, "node-1", Phase.CREATING))})

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
        await plane.pass_time(ROUNDS * LOOK_SECONDS)
        kept = await selected(plane, "claim-0")
        assert (kept == "node-1") is being_made

    run_plane([SelectedNodeJanitor], scenario, client=lambda api, user: CountingClient(api, user, requests))
    return requests


def test_volumes_are_listed_once_for_all_stranded_claims() -> None:
    few, many = (stranded(claims=number, being_made=False) for number in (4, 8))
    assert few[f"list {VOLUME.plural}"] == many[f"list {VOLUME.plural}"] == 1


def test_nothing_is_listed_for_claims_whose_volumes_are_being_made() -> None:
    few, many = (stranded(claims=number, being_made=True) for number in (4, 8))
    for requests in (few, many):
        assert not requests[f"list {VOLUME.plural}"]
        assert not requests[f"list {CONFIG_MAP.plural}"]
    assert many[f"get {CONFIG_MAP.plural}"] <= 2 * few[f"get {CONFIG_MAP.plural}"]


def deletions(monkeypatch: pytest.MonkeyPatch, attachments: int) -> Counter[str]:
    """What is looked at in caches until a volume is deleted, beside so many attachments of others."""
    driver = PaperDriver({"node-1": 10 * GI})
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
