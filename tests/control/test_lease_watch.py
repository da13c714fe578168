"""Whether a holder is alive, told by clocks that do not agree."""

from collections.abc import Awaitable, Callable

import pytest

from mooring.api.errors import NotFound
from mooring.api.kinds import LEASE, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.client.contract import Client
from mooring.control.lease_watch import LeaseWatch
from partial_plane import Plane, run_plane

NAME, WHERE, LASTS, RENEWS = "coordinator", "kube-system", 15, 2.0


class Holder:
    """Renews its Lease by a clock that is so many seconds ahead of everybody else's."""

    def __init__(self, plane: Plane, ahead: float) -> None:
        self._plane = plane
        self._client: Client = plane.client
        self._ahead = ahead

    async def renew(self, holder: str = "somebody") -> None:
        date = to_micro_time(self._plane.clock.now() + self._ahead)
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LASTS, "renewTime": date}
        try:
            await self._client.patch(LEASE, NAME, MergePatch({"spec": spec}), namespace=WHERE)
        except NotFound:
            await self._client.create(LEASE, {"metadata": {"name": NAME}, "spec": spec}, namespace=WHERE)

    async def live_for(self, seconds: float, watch: LeaseWatch) -> list[bool]:
        """What the watch says while the Lease is renewed all the time."""
        said = []
        for _ in range(int(seconds / RENEWS)):
            await self.renew()
            said.append(await watch.live())
            await self._plane.pass_time(RENEWS)
        return said


def play(ahead: float, scenario: Callable[[Plane, Holder, LeaseWatch], Awaitable[None]]) -> None:
    async def run(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": WHERE}})
        watch = LeaseWatch(plane.client, plane.clock, name=NAME, namespace=WHERE)
        assert not await watch.live()
        await plane.pass_time(10)
        await scenario(plane, Holder(plane, ahead), watch)

    run_plane([], run)


SKEWS = [
    pytest.param(0.0, id="clocks that agree"),
    pytest.param(3600.0, id="a holder an hour ahead"),
    pytest.param(-3600.0, id="a holder an hour behind"),
]


@pytest.mark.parametrize("ahead", SKEWS)
def test_who_renews_lives_whatever_its_clock_says(ahead: float) -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseWatch) -> None:
        said = await holder.live_for(60, watch)
        # One look has nothing to compare with, where the date cannot be believed.
        assert all(said[1:])
        assert said[0] is (ahead >= 0)

    play(ahead, scenario)


@pytest.mark.parametrize("ahead", SKEWS)
def test_who_stops_renewing_is_gone_when_its_lease_is(ahead: float) -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseWatch) -> None:
        await holder.live_for(10, watch)
        await plane.pass_time(LASTS - 2 * RENEWS)
        assert await watch.live()
        await plane.pass_time(3 * RENEWS)
        assert not await watch.live()

    play(ahead, scenario)


def test_a_lease_that_was_given_back_is_nobodys_at_once() -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseWatch) -> None:
        await holder.live_for(10, watch)
        await holder.renew("")
        await plane.pass_time(RENEWS)
        assert not await watch.live()

    play(0.0, scenario)


def test_a_date_of_long_ago_is_not_taken_for_life() -> None:
    """Whoever starts beside the Lease of a dead holder must not take it for a living one."""

    async def scenario(plane: Plane, holder: Holder, watch: LeaseWatch) -> None:
        await holder.renew()
        await plane.pass_time(LASTS + 1)
        assert not await watch.live()
        await plane.pass_time(100)
        assert not await watch.live()

    play(0.0, scenario)
