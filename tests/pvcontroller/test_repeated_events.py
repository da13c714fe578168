"""Claims that wait are reported once for each full resync, not for each resync."""

import pytest

from mooring.api.kinds import CLAIM, EVENT, STORAGE_CLASS
from mooring.pvcontroller.component import FULL_RESYNC_PERIODS, RESYNC_SECONDS, PersistentVolumeController
from support.builders import claim_body, class_body
from support.partial_control_plane import Plane, run_plane


@pytest.mark.req("T42.PC1")
def test_waiting_claims_are_reported_again_after_a_full_resync() -> None:
    async def reports(plane: Plane) -> int:
        events = (await plane.client.list(EVENT, namespace="default")).items
        return sum(max(event.count, 1) for event in events if event.reason == "WaitForFirstConsumer")

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body(name="wait"))
        await plane.create(CLAIM, claim_body(storage_class="wait"))
        await plane.pass_time((FULL_RESYNC_PERIODS - 1) * RESYNC_SECONDS)
        assert await reports(plane) == 1
        await plane.pass_time(2 * RESYNC_SECONDS)
        assert await reports(plane) == 2

    run_plane([PersistentVolumeController], scenario)
