import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from control.rivals import NAME, WHERE, Act, Hall, Rivals, Span, Trouble
from mooring.api.kinds import CONFIG_MAP, LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.views.lease import Lease
from mooring.api.views.meta import ApiObject
from mooring.client.informer import Informer, Informers
from mooring.control.candidacy import JITTER, Timings
from mooring.control.leader_election import incarnation, lead
from mooring.sim import loop
from mooring.sim.loop import VirtualClock

T = TypeVar("T")

TIMINGS = Timings()
MARGIN = TIMINGS.lease_duration - TIMINGS.renew_deadline
#: The longest pause between two tries of a candidate.
LONGEST_PAUSE = TIMINGS.retry_period * (1 + JITTER)


def among_rivals(scenario: Callable[[Rivals], Awaitable[T]]) -> T:
    async def main(clock: VirtualClock) -> T:
        return await scenario(await Rivals.meet(clock))

    with capture_logs():
        return loop.run(main)


def test_the_first_to_come_leads_and_renews() -> None:
    async def scenario(rivals: Rivals) -> None:
        a, b = rivals.instance("a"), rivals.instance("b")
        a.start()
        await rivals.clock.sleep(1)
        b.start()
        await rivals.clock.sleep(99.5)
        assert list(rivals.hall.acting) == ["a"]
        spec = (await rivals.lease()).spec
        assert spec.holder_identity.startswith("a_")
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert spec.acquire_time == "2026-01-01T00:00:00.000000Z"
        assert spec.renew_time == "2026-01-01T00:01:40.000000Z"
        assert a.reports == [True]
        assert b.reports == []

    among_rivals(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
@pytest.mark.parametrize("seed", range(20))
def test_after_a_crash_another_leads_within_a_lease_and_a_pause(seed: int) -> None:
    async def scenario(rivals: Rivals) -> None:
        a, b = rivals.instance("a", seed=seed), rivals.instance("b", seed=seed)
        a.start()
        await rivals.until(lambda: "a" in rivals.hall.acting, within=1)
        b.start()
        await rivals.clock.sleep(random.Random(seed).uniform(5, 60))
        await a.crash()
        took = await rivals.until(lambda: "b" in rivals.hall.acting, within=60)
        assert TIMINGS.lease_duration - TIMINGS.retry_period <= took <= TIMINGS.lease_duration + LONGEST_PAUSE + 0.02
        assert (await rivals.lease()).spec.lease_transitions == 1

    among_rivals(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.release")
@pytest.mark.parametrize("seed", range(10))
def test_after_an_orderly_stop_another_leads_at_its_next_try(seed: int) -> None:
    async def scenario(rivals: Rivals) -> None:
        a, b = rivals.instance("a", seed=seed), rivals.instance("b", seed=seed)
        a.start()
        await rivals.until(lambda: "a" in rivals.hall.acting, within=1)
        b.start()
        await rivals.clock.sleep(random.Random(seed).uniform(5, 60))
        await a.stop()
        spec = (await rivals.lease()).spec
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 0)
        await rivals.until(lambda: "b" in rivals.hall.acting, within=LONGEST_PAUSE + 0.02)
        assert a.reports == [True, False]

    among_rivals(scenario)


def test_the_lease_is_given_back_only_after_the_last_act_has_ended() -> None:
    async def scenario(rivals: Rivals) -> Hall:
        a, b = rivals.instance("a"), rivals.instance("b")
        a.winds_down = 9.0
        a.start()
        await rivals.clock.sleep(1)
        b.start()
        await rivals.clock.sleep(20)
        await a.stop()
        await rivals.until(lambda: "b" in rivals.hall.acting, within=LONGEST_PAUSE + 0.02)
        return rivals.hall

    hall = among_rivals(scenario)
    assert hall.acts[0] == Act("a", 0.0, 30.0)
    assert hall.overlaps == []


def frozen_at_the_worst_moment(seed: int, freeze: float, winds_down: float = 0.0) -> Hall:
    """The leader loses the server, and is frozen just before it would stop for that; its rival has a fast line."""
    rng = random.Random(seed)

    async def scenario(rivals: Rivals) -> Hall:
        a = rivals.instance("a", seed=seed, trouble=Trouble(longest_way=rng.choice((0.01, 2.4))))
        b = rivals.instance("b", seed=seed, trouble=Trouble(longest_way=0.01))
        a.winds_down = winds_down
        a.start()
        await rivals.until(lambda: "a" in rivals.hall.acting, within=60)
        b.start()
        await rivals.clock.sleep(rng.uniform(5, 20))
        now = rivals.clock.monotonic()
        rng.choice((a.trouble.cut_off, a.trouble.unheard)).append(Span(now, now + 40))
        while (left := a.wire.acknowledged + TIMINGS.renew_deadline - 0.01 - rivals.clock.monotonic()) > 0:
            await rivals.clock.sleep(left)
        now = rivals.clock.monotonic()
        a.trouble.frozen.append(Span(now, now + freeze))
        await rivals.clock.sleep(40)
        await a.crash()
        await b.crash()
        return rivals.hall

    return among_rivals(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.no-two-leaders")
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize(
    ("freeze", "winds_down"),
    [
        pytest.param(0.0, 0.0, id="not frozen"),
        pytest.param(MARGIN - 0.01, 0.0, id="frozen"),
        pytest.param(MARGIN / 2, MARGIN / 2 - 0.01, id="frozen and slow to wind down"),
    ],
)
def test_a_freeze_below_the_bound_at_the_worst_moment_shows_no_two_leaders(
    seed: int, freeze: float, winds_down: float
) -> None:
    hall = frozen_at_the_worst_moment(seed, freeze, winds_down)
    assert hall.overlaps == []
    assert {act.instance for act in hall.acts} == {"a", "b"}


def test_a_freeze_beyond_the_bound_can_show_two_leaders_and_is_seen() -> None:
    halls = [frozen_at_the_worst_moment(seed, MARGIN + 2.5) for seed in range(15)]
    assert any(hall.overlaps for hall in halls)


def contest(seed: int) -> tuple[Hall, int]:
    """Three instances, three minutes, and somebody who means harm to whoever leads."""
    rng = random.Random(seed)

    async def scenario(rivals: Rivals) -> tuple[Hall, int]:
        clock, hall = rivals.clock, rivals.hall
        for name in ("a", "b", "c"):
            trouble = Trouble(flaky=rng.choice((0, 0.05, 0.3)), longest_way=rng.choice((0.001, 0.3, 2.4)))
            rivals.instance(name, seed=seed, trouble=trouble).start()
        for _ in range(8):
            await clock.sleep(rng.uniform(0, 20))
            victim = rivals.instances[rng.choice([*hall.acting] or ["a", "b", "c"])]
            match rng.choice(("crash", "stop", "freeze", "freeze", "freeze", "freeze")):
                case "crash":
                    await victim.crash()
                    victim.start()
                case "stop":
                    await victim.stop()
                    victim.start()
                case _:
                    now = clock.monotonic()
                    lost = rng.choice((victim.trouble.cut_off, victim.trouble.unheard))
                    lost.append(Span(now, now + rng.uniform(8, 25)))
                    stops = victim.wire.acknowledged + TIMINGS.renew_deadline
                    await clock.sleep(stops - rng.choice((0.001, 0.1, 2.0)) - clock.monotonic())
                    now = clock.monotonic()
                    victim.trouble.frozen.append(Span(now, now + (MARGIN - 0.001) * (1 - rng.random() ** 2)))
                    await clock.sleep(MARGIN)
        for instance in rivals.instances.values():
            instance.trouble.flaky = 0.0
        await clock.sleep(25 + TIMINGS.lease_duration + 2 * LONGEST_PAUSE)
        leaders = len(hall.acting)
        for instance in rivals.instances.values():
            await instance.stop()
        return hall, leaders

    return among_rivals(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.no-two-leaders")
@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_there_are_never_two_leaders_and_in_the_end_there_is_one(seed: int) -> None:
    hall, leaders = contest(seed)
    assert hall.overlaps == []
    assert leaders == 1


def test_a_seed_gives_one_run() -> None:
    assert contest(3)[0].acts == contest(3)[0].acts


@pytest.mark.parametrize(
    ("trouble", "until"),
    [
        pytest.param(Trouble(cut_off=[Span(20.5, 60)]), 30.0, id="no request gets through"),
        pytest.param(Trouble(unheard=[Span(20.5, 60)]), 30.0, id="no answer comes back"),
        pytest.param(Trouble(frozen=[Span(20.5, 50)]), 50.0, id="it does not run"),
    ],
)
def test_a_leader_that_cannot_renew_stops_in_time_and_campaigns_again(trouble: Trouble, until: float) -> None:
    async def scenario(rivals: Rivals) -> list[Act]:
        a = rivals.instance("a", trouble=trouble)
        a.start()
        await rivals.clock.sleep(100)
        await a.stop()
        return rivals.hall.acts

    first, second = among_rivals(scenario)
    assert first == Act("a", 0.0, until)
    assert second.began < 60 + LONGEST_PAUSE + 0.02
    assert second.ended == 100.0


def test_a_leader_s_time_runs_from_when_it_asked_not_from_when_it_was_answered() -> None:
    async def scenario(rivals: Rivals) -> list[Act]:
        a = rivals.instance("a", trouble=Trouble(slow_answers=4.0, cut_off=[Span(20.5, 60)]))
        a.start()
        await rivals.clock.sleep(50)
        await a.stop()
        return rivals.hall.acts

    # It looks at 0, claims at 4, hears of it at 8, and renews for the last time at 16.
    assert among_rivals(scenario) == [Act("a", 8.0, 26.0)]


def test_whoever_was_frozen_for_too_long_says_so() -> None:
    async def main(clock: VirtualClock) -> None:
        a = (await Rivals.meet(clock)).instance("a", trouble=Trouble(frozen=[Span(20.5, 50)]))
        a.start()
        await clock.sleep(60)
        await a.stop()

    with capture_logs() as logs:
        loop.run(main)
    assert [line["lease"] for line in logs if line["log_level"] == "error"] == [f"{WHERE}/{NAME}"]


async def _label(rivals: Rivals) -> None:
    await rivals.server.patch(LEASE, NAME, MergePatch({"metadata": {"labels": {"team": "storage"}}}), namespace=WHERE)


async def _delete(rivals: Rivals) -> None:
    await rivals.server.delete(LEASE, NAME, namespace=WHERE)


async def _clear(rivals: Rivals) -> None:
    await rivals.server.patch(LEASE, NAME, MergePatch({"spec": {"holderIdentity": ""}}), namespace=WHERE)


@pytest.mark.parametrize(
    "meddle",
    [pytest.param(_label, id="label"), pytest.param(_delete, id="deletion"), pytest.param(_clear, id="holder cleared")],
)
def test_a_leader_alone_goes_on_when_somebody_meddles_with_its_lease(
    meddle: Callable[[Rivals], Awaitable[None]],
) -> None:
    async def scenario(rivals: Rivals) -> None:
        rivals.instance("a").start()
        await rivals.clock.sleep(21)
        await meddle(rivals)
        await rivals.clock.sleep(79)
        assert rivals.hall.acting == {"a": 0.0}
        assert (await rivals.lease()).spec.holder_identity.startswith("a_")

    among_rivals(scenario)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def scenario(rivals: Rivals) -> Act:
        rivals.instance("a").start()
        await rivals.clock.sleep(20.5)
        patch = MergePatch({"spec": {"holderIdentity": "somebody else"}})
        await rivals.server.patch(LEASE, NAME, patch, namespace=WHERE)
        await rivals.until(lambda: "a" not in rivals.hall.acting, within=TIMINGS.retry_period)
        took = await rivals.until(lambda: "a" in rivals.hall.acting, within=30)
        assert took == pytest.approx(TIMINGS.lease_duration, abs=0.02)
        return rivals.hall.acts[0]

    assert among_rivals(scenario) == Act("a", 0.0, 22.0)


def test_a_claim_whose_answer_was_lost_is_found_at_the_next_try() -> None:
    async def scenario(rivals: Rivals) -> None:
        rivals.instance("a", trouble=Trouble(unheard=[Span(0, 1)])).start()
        await rivals.until(lambda: "a" in rivals.hall.acting, within=LONGEST_PAUSE + 0.02)

    among_rivals(scenario)


def test_who_is_stopped_in_the_middle_of_a_claim_does_not_leave_the_lease_behind() -> None:
    async def scenario(rivals: Rivals) -> None:
        a = rivals.instance("a", trouble=Trouble(unheard=[Span(0, 1)]))
        a.start()
        await rivals.clock.sleep(1)
        assert (await rivals.lease()).spec.holder_identity.startswith("a_")
        await a.stop()
        assert (await rivals.lease()).spec.holder_identity == ""

    among_rivals(scenario)


def test_an_orderly_stop_does_not_wait_long_for_a_silent_server() -> None:
    async def scenario(rivals: Rivals) -> float:
        a = rivals.instance("a")
        a.start()
        await rivals.clock.sleep(20.5)
        a.trouble.slow_answers = 1000.0
        await a.stop()
        return rivals.clock.monotonic()

    assert among_rivals(scenario) == 20.5 + TIMINGS.patience


def test_a_standby_that_stops_leaves_the_lease_alone() -> None:
    async def scenario(rivals: Rivals) -> None:
        rivals.instance("a").start()
        await rivals.clock.sleep(1)
        b = rivals.instance("b")
        b.start()
        await rivals.clock.sleep(30.5)
        before = await rivals.lease()
        await b.stop()
        assert await rivals.lease() == before

    among_rivals(scenario)


async def _ends() -> None:
    await asyncio.sleep(0)


async def _fails() -> None:
    raise LookupError("a bug")


async def alone(rivals: Rivals, act: Callable[[], Awaitable[None]]) -> None:
    await lead(rivals.server, rivals.clock, random.Random(0), name=NAME, namespace=WHERE, identity="me", act=act)


def test_when_the_act_ends_so_does_the_election() -> None:
    async def scenario(rivals: Rivals) -> str:
        await alone(rivals, _ends)
        return (await rivals.lease()).spec.holder_identity

    assert among_rivals(scenario) == ""


def test_a_bug_in_the_act_comes_out_after_the_lease_is_given_back() -> None:
    async def scenario(rivals: Rivals) -> str:
        with pytest.raises(ExceptionGroup) as caught:
            await alone(rivals, _fails)
        assert caught.group_contains(LookupError, match="a bug")
        return (await rivals.lease()).spec.holder_identity

    assert among_rivals(scenario) == ""


def test_an_incarnation_is_named_after_its_host_and_like_no_other() -> None:
    rng = random.Random(0)
    names = {incarnation("node-1", rng) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("node-1_") for name in names)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
@pytest.mark.parametrize("warm", [True, False], ids=["a warm cache is replayed", "a list arrives"])
def test_the_lease_is_renewed_while_a_large_cluster_is_taken_in(warm: bool) -> None:
    """Twenty seconds of work, four milliseconds for each object: in one go it would last longer than the lease."""

    async def scenario(rivals: Rivals) -> None:
        clock, client = rivals.clock, rivals.server
        running = asyncio.get_running_loop()
        assert isinstance(running, loop.VirtualLoop)
        for number in range(5000):
            await client.create(CONFIG_MAP, {"metadata": {"name": f"c{number}"}}, namespace=WHERE)
        informers = Informers(client, clock, random.Random(0))
        told: list[str] = []
        renewed: list[float] = []

        def take_in(_before: ApiObject | None, after: ApiObject | None) -> None:
            running.advance(0.004)
            if after is not None:
                told.append(after.name)

        async def act() -> None:
            informer = informers.of(CONFIG_MAP)
            if warm:
                await informer.subscribe(take_in)
            else:
                informer.on_change(take_in)
                await informer.synced.wait()

        leases: Informer[Lease] = informers.of(LEASE)
        leases.on_change(lambda _before, after: renewed.append(clock.monotonic()) if after is not None else None)
        if warm:
            informers.of(CONFIG_MAP)
        keeping = asyncio.ensure_future(informers.run())
        if warm:
            await informers.wait_synced()
        began = clock.monotonic()
        await lead(client, clock, random.Random(0), name=NAME, namespace=WHERE, identity="a", act=act)
        keeping.cancel()
        assert clock.monotonic() - began > 2 * TIMINGS.renew_deadline * 0.99
        assert len(told) == 5000
        gaps = [after - before for before, after in itertools.pairwise(renewed)]
        assert max(gaps) < 2 * TIMINGS.retry_period, "none was missed"

    among_rivals(scenario)
