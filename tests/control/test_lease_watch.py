"""Whether a holder is alive, told by clocks that do not agree."""

from collections.abc import Awaitable, Callable

import pytest

from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import LEASE, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_micro_time
from mooring.client.contract import Client
from mooring.control.leader_election import LeaseMonitor
from support.partial_control_plane import Plane, run_plane

NAME, WHERE, LASTS, RENEWS = "coordinator", "kube-system", 15, 2.0


class Holder:
    """Renews its Lease by a clock that is so many seconds ahead of the watcher's."""

    def __init__(self, plane: Plane, ahead: float) -> None:
        self._plane = plane
        self._client: Client = plane.client
        self._ahead = ahead

    async def renew(self, holder: str = "holder") -> None:
        date = to_micro_time(self._plane.clock.now() + self._ahead)
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LASTS, "renewTime": date}
        try:
            await self._client.patch(LEASE, NAME, MergePatch({"spec": spec}), namespace=WHERE)
        except NotFound:
            await self._client.create(LEASE, {"metadata": {"name": NAME}, "spec": spec}, namespace=WHERE)

    async def live_for(self, seconds: float, watch: LeaseMonitor) -> list[bool]:
        """What the watch says while the Lease is renewed all the time."""
        said = []
        for _ in range(int(seconds / RENEWS)):
            await self.renew()
            said.append(await watch.is_held())
            await self._plane.pass_time(RENEWS)
        return said


def play(
    ahead: float, scenario: Callable[[Plane, Holder, LeaseMonitor], Awaitable[None]], *, looks: bool = True
) -> None:
    """`looks`: the Lease was looked for before it exists."""

    async def run(plane: Plane) -> None:
        await plane.client.create(NAMESPACE, {"metadata": {"name": WHERE}})
        watch = LeaseMonitor(plane.client, plane.clock, name=NAME, namespace=WHERE)
        assert not looks or not await watch.is_held()
        await plane.pass_time(10)
        await scenario(plane, Holder(plane, ahead), watch)

    run_plane([], run)


SKEWS = [
    pytest.param(0.0, id="clocks that agree"),
    pytest.param(3600.0, id="a holder an hour ahead"),
    pytest.param(-3600.0, id="a holder an hour behind"),
]


@pytest.mark.parametrize("ahead", SKEWS)
def test_renewed_lease_is_live_whatever_the_holders_clock(ahead: float) -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        said = await holder.live_for(60, watch)
        # One look has nothing to compare with, where the date cannot be believed.
        assert all(said[1:])
        assert said[0] is (ahead >= 0)

    play(ahead, scenario)


@pytest.mark.parametrize("ahead", SKEWS)
def test_lease_that_is_not_renewed_expires(ahead: float) -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        await holder.live_for(10, watch)
        await plane.pass_time(LASTS - 2 * RENEWS)
        assert await watch.is_held()
        await plane.pass_time(3 * RENEWS)
        assert not await watch.is_held()

    play(ahead, scenario)


def test_released_lease_has_no_holder_at_once() -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        await holder.live_for(10, watch)
        await holder.renew("")
        await plane.pass_time(RENEWS)
        assert not await watch.is_held()

    play(0.0, scenario)


def test_a_date_of_long_ago_is_not_taken_for_life() -> None:
    """A watcher started after its holder died must not take the Lease for a renewed one."""

    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        await holder.renew()
        await plane.pass_time(LASTS + 1)
        assert not await watch.is_held()
        await plane.pass_time(100)
        assert not await watch.is_held()

    play(0.0, scenario)


async def refuse(*given: object, **options: object) -> None:
    raise Forbidden("leases is forbidden")


@pytest.mark.parametrize(("seconds", "held"), [(LASTS - 2 * RENEWS, True), (LASTS + RENEWS, False)])
def test_lease_that_is_not_readable_any_more_expires(
    seconds: float, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 403 does not tell that its holder is gone."""

    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        await holder.live_for(10, watch)
        monkeypatch.setattr(plane.client, "get", refuse)
        await plane.pass_time(seconds)
        assert await watch.is_held() is held

    play(0.0, scenario)


@pytest.mark.parametrize("ends", [pytest.param(True, id="deleted"), pytest.param(False, id="released")])
def test_lease_without_holder_is_not_held_while_it_is_not_readable(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        await holder.live_for(10, watch)
        await (plane.client.delete(LEASE, NAME, namespace=WHERE) if ends else holder.renew(""))
        await plane.pass_time(RENEWS)
        assert not await watch.is_held()
        monkeypatch.setattr(plane.client, "get", refuse)
        await plane.pass_time(RENEWS)
        assert not await watch.is_held()

    play(0.0, scenario)


def test_lease_that_was_never_readable_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """One refusal may be that of an API server that has not read its roles yet."""

    async def scenario(plane: Plane, holder: Holder, watch: LeaseMonitor) -> None:
        monkeypatch.setattr(plane.client, "get", refuse)
        with pytest.raises(Forbidden):
            await watch.is_held()
        assert not any(await holder.live_for(10, watch))

    play(0.0, scenario, looks=False)
