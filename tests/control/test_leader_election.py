import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from mooring.api.kinds import CONFIG_MAP, LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Lease
from mooring.api.views.meta import ApiObject
from mooring.client.informer import Informer, Informers
from mooring.control.election import JITTER, Timings
from mooring.control.leader_election import lead, new_identity
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.leader_election import NAME, WHERE, Act, Candidates, InstanceFaults, LeaderLog, Span

T = TypeVar("T")

TIMINGS = Timings()
MARGIN = TIMINGS.lease_duration - TIMINGS.renew_deadline
#: The longest pause between two tries of a candidate.
LONGEST_PAUSE = TIMINGS.retry_period * (1 + JITTER)


def run_candidates(scenario: Callable[[Candidates], Awaitable[T]]) -> T:
    async def main(clock: VirtualClock) -> T:
        return await scenario(await Candidates.create(clock))

    with capture_logs():
        return virtual_time.run_in_virtual_time(main)


def test_the_first_to_come_leads_and_renews() -> None:
    async def scenario(candidates: Candidates) -> None:
        a, b = candidates.instance("a"), candidates.instance("b")
        a.start()
        await candidates.clock.sleep(1)
        b.start()
        await candidates.clock.sleep(99.5)
        assert list(candidates.leader_log.acting) == ["a"]
        spec = (await candidates.lease()).spec
        assert spec.holder_identity.startswith("a_")
        assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
        assert spec.acquire_time == "2026-01-01T00:00:00.000000Z"
        assert spec.renew_time == "2026-01-01T00:01:40.000000Z"
        assert a.reports == [True]
        assert b.reports == []

    run_candidates(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
@pytest.mark.parametrize("seed", range(20))
def test_after_a_crash_another_leads_within_a_lease_and_a_pause(seed: int) -> None:
    async def scenario(candidates: Candidates) -> None:
        a, b = candidates.instance("a", seed=seed), candidates.instance("b", seed=seed)
        a.start()
        await candidates.until(lambda: "a" in candidates.leader_log.acting, within=1)
        b.start()
        await candidates.clock.sleep(random.Random(seed).uniform(5, 60))
        await a.crash()
        took = await candidates.until(lambda: "b" in candidates.leader_log.acting, within=60)
        assert TIMINGS.lease_duration - TIMINGS.retry_period <= took <= TIMINGS.lease_duration + LONGEST_PAUSE + 0.02
        assert (await candidates.lease()).spec.lease_transitions == 1

    run_candidates(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.release")
@pytest.mark.parametrize("seed", range(10))
def test_after_an_orderly_stop_another_leads_at_its_next_try(seed: int) -> None:
    async def scenario(candidates: Candidates) -> None:
        a, b = candidates.instance("a", seed=seed), candidates.instance("b", seed=seed)
        a.start()
        await candidates.until(lambda: "a" in candidates.leader_log.acting, within=1)
        b.start()
        await candidates.clock.sleep(random.Random(seed).uniform(5, 60))
        await a.stop()
        spec = (await candidates.lease()).spec
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 0)
        await candidates.until(lambda: "b" in candidates.leader_log.acting, within=LONGEST_PAUSE + 0.02)
        assert a.reports == [True, False]

    run_candidates(scenario)


def test_the_lease_is_given_back_only_after_the_last_act_has_ended() -> None:
    async def scenario(candidates: Candidates) -> LeaderLog:
        a, b = candidates.instance("a"), candidates.instance("b")
        a.winds_down = 9.0
        a.start()
        await candidates.clock.sleep(1)
        b.start()
        await candidates.clock.sleep(20)
        await a.stop()
        await candidates.until(lambda: "b" in candidates.leader_log.acting, within=LONGEST_PAUSE + 0.02)
        return candidates.leader_log

    leader_log = run_candidates(scenario)
    assert leader_log.acts[0] == Act("a", 0.0, 30.0)
    assert leader_log.overlaps == []


def frozen_at_the_worst_moment(seed: int, freeze: float, winds_down: float = 0.0) -> LeaderLog:
    """The leader loses the server, and is frozen just before it would stop for that; its rival has a fast line."""
    rng = random.Random(seed)

    async def scenario(candidates: Candidates) -> LeaderLog:
        a = candidates.instance("a", seed=seed, trouble=InstanceFaults(longest_way=rng.choice((0.01, 2.4))))
        b = candidates.instance("b", seed=seed, trouble=InstanceFaults(longest_way=0.01))
        a.winds_down = winds_down
        a.start()
        await candidates.until(lambda: "a" in candidates.leader_log.acting, within=60)
        b.start()
        await candidates.clock.sleep(rng.uniform(5, 20))
        now = candidates.clock.monotonic()
        rng.choice((a.trouble.cut_off, a.trouble.unheard)).append(Span(now, now + 40))
        while (left := a.wire.acknowledged + TIMINGS.renew_deadline - 0.01 - candidates.clock.monotonic()) > 0:
            await candidates.clock.sleep(left)
        now = candidates.clock.monotonic()
        a.trouble.frozen.append(Span(now, now + freeze))
        await candidates.clock.sleep(40)
        await a.crash()
        await b.crash()
        return candidates.leader_log

    return run_candidates(scenario)


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
    leader_log = frozen_at_the_worst_moment(seed, freeze, winds_down)
    assert leader_log.overlaps == []
    assert {act.instance for act in leader_log.acts} == {"a", "b"}


def test_a_freeze_beyond_the_bound_can_show_two_leaders_and_is_seen() -> None:
    halls = [frozen_at_the_worst_moment(seed, MARGIN + 2.5) for seed in range(15)]
    assert any(leader_log.overlaps for leader_log in halls)


def contest(seed: int) -> tuple[LeaderLog, int]:
    """Three instances for three minutes, with faults injected into the leader."""
    rng = random.Random(seed)

    async def scenario(candidates: Candidates) -> tuple[LeaderLog, int]:
        clock, leader_log = candidates.clock, candidates.leader_log
        for name in ("a", "b", "c"):
            trouble = InstanceFaults(flaky=rng.choice((0, 0.05, 0.3)), longest_way=rng.choice((0.001, 0.3, 2.4)))
            candidates.instance(name, seed=seed, trouble=trouble).start()
        for _ in range(8):
            await clock.sleep(rng.uniform(0, 20))
            victim = candidates.instances[rng.choice([*leader_log.acting] or ["a", "b", "c"])]
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
        for instance in candidates.instances.values():
            instance.trouble.flaky = 0.0
        await clock.sleep(25 + TIMINGS.lease_duration + 2 * LONGEST_PAUSE)
        leaders = len(leader_log.acting)
        for instance in candidates.instances.values():
            await instance.stop()
        return leader_log, leaders

    return run_candidates(scenario)


@pytest.mark.level("s")
@pytest.mark.req("T35.no-two-leaders")
@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_there_are_never_two_leaders_and_in_the_end_there_is_one(seed: int) -> None:
    leader_log, leaders = contest(seed)
    assert leader_log.overlaps == []
    assert leaders == 1


def test_a_seed_gives_one_run() -> None:
    assert contest(3)[0].acts == contest(3)[0].acts


@pytest.mark.parametrize(
    ("trouble", "until"),
    [
        pytest.param(InstanceFaults(cut_off=[Span(20.5, 60)]), 30.0, id="no request gets through"),
        pytest.param(InstanceFaults(unheard=[Span(20.5, 60)]), 30.0, id="no answer comes back"),
        pytest.param(InstanceFaults(frozen=[Span(20.5, 50)]), 50.0, id="it does not run"),
    ],
)
def test_a_leader_that_cannot_renew_stops_in_time_and_campaigns_again(trouble: InstanceFaults, until: float) -> None:
    async def scenario(candidates: Candidates) -> list[Act]:
        a = candidates.instance("a", trouble=trouble)
        a.start()
        await candidates.clock.sleep(100)
        await a.stop()
        return candidates.leader_log.acts

    first, second = run_candidates(scenario)
    assert first == Act("a", 0.0, until)
    assert second.began < 60 + LONGEST_PAUSE + 0.02
    assert second.ended == 100.0


def test_a_leader_s_time_runs_from_when_it_asked_not_from_when_it_was_answered() -> None:
    async def scenario(candidates: Candidates) -> list[Act]:
        a = candidates.instance("a", trouble=InstanceFaults(slow_answers=4.0, cut_off=[Span(20.5, 60)]))
        a.start()
        await candidates.clock.sleep(50)
        await a.stop()
        return candidates.leader_log.acts

    # It looks at 0, claims at 4, hears of it at 8, and renews for the last time at 16.
    assert run_candidates(scenario) == [Act("a", 8.0, 26.0)]


def test_instance_frozen_past_its_lease_logs_it() -> None:
    async def main(clock: VirtualClock) -> None:
        a = (await Candidates.create(clock)).instance("a", trouble=InstanceFaults(frozen=[Span(20.5, 50)]))
        a.start()
        await clock.sleep(60)
        await a.stop()

    with capture_logs() as logs:
        virtual_time.run_in_virtual_time(main)
    assert [line["lease"] for line in logs if line["log_level"] == "error"] == [f"{WHERE}/{NAME}"]


async def _label(candidates: Candidates) -> None:
    await candidates.server.patch(
        LEASE, NAME, MergePatch({"metadata": {"labels": {"team": "storage"}}}), namespace=WHERE
    )


async def _delete(candidates: Candidates) -> None:
    await candidates.server.delete(LEASE, NAME, namespace=WHERE)


async def _clear(candidates: Candidates) -> None:
    await candidates.server.patch(LEASE, NAME, MergePatch({"spec": {"holderIdentity": ""}}), namespace=WHERE)


@pytest.mark.parametrize(
    "meddle",
    [pytest.param(_label, id="label"), pytest.param(_delete, id="deletion"), pytest.param(_clear, id="holder cleared")],
)
def test_only_candidate_keeps_leading_when_its_lease_is_modified(
    meddle: Callable[[Candidates], Awaitable[None]],
) -> None:
    async def scenario(candidates: Candidates) -> None:
        candidates.instance("a").start()
        await candidates.clock.sleep(21)
        await meddle(candidates)
        await candidates.clock.sleep(79)
        assert candidates.leader_log.acting == {"a": 0.0}
        assert (await candidates.lease()).spec.holder_identity.startswith("a_")

    run_candidates(scenario)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def scenario(candidates: Candidates) -> Act:
        candidates.instance("a").start()
        await candidates.clock.sleep(20.5)
        patch = MergePatch({"spec": {"holderIdentity": "another"}})
        await candidates.server.patch(LEASE, NAME, patch, namespace=WHERE)
        await candidates.until(lambda: "a" not in candidates.leader_log.acting, within=TIMINGS.retry_period)
        took = await candidates.until(lambda: "a" in candidates.leader_log.acting, within=30)
        assert took == pytest.approx(TIMINGS.lease_duration, abs=0.02)
        return candidates.leader_log.acts[0]

    assert run_candidates(scenario) == Act("a", 0.0, 22.0)


def test_acquired_lease_with_a_lost_response_is_recognised_at_the_next_try() -> None:
    async def scenario(candidates: Candidates) -> None:
        candidates.instance("a", trouble=InstanceFaults(unheard=[Span(0, 1)])).start()
        await candidates.until(lambda: "a" in candidates.leader_log.acting, within=LONGEST_PAUSE + 0.02)

    run_candidates(scenario)


def test_instance_stopped_while_acquiring_releases_the_lease() -> None:
    async def scenario(candidates: Candidates) -> None:
        a = candidates.instance("a", trouble=InstanceFaults(unheard=[Span(0, 1)]))
        a.start()
        await candidates.clock.sleep(1)
        assert (await candidates.lease()).spec.holder_identity.startswith("a_")
        await a.stop()
        assert (await candidates.lease()).spec.holder_identity == ""

    run_candidates(scenario)


def test_an_orderly_stop_does_not_wait_long_for_a_silent_server() -> None:
    async def scenario(candidates: Candidates) -> float:
        a = candidates.instance("a")
        a.start()
        await candidates.clock.sleep(20.5)
        a.trouble.slow_answers = 1000.0
        await a.stop()
        return candidates.clock.monotonic()

    assert run_candidates(scenario) == 20.5 + TIMINGS.request_timeout


def test_a_standby_that_stops_leaves_the_lease_alone() -> None:
    async def scenario(candidates: Candidates) -> None:
        candidates.instance("a").start()
        await candidates.clock.sleep(1)
        b = candidates.instance("b")
        b.start()
        await candidates.clock.sleep(30.5)
        before = await candidates.lease()
        await b.stop()
        assert await candidates.lease() == before

    run_candidates(scenario)


async def _ends() -> None:
    await asyncio.sleep(0)


async def _fails() -> None:
    raise LookupError("a bug")


async def alone(candidates: Candidates, act: Callable[[], Awaitable[None]]) -> None:
    await lead(
        candidates.server, candidates.clock, random.Random(0), name=NAME, namespace=WHERE, identity="me", act=act
    )


def test_when_the_act_ends_so_does_the_election() -> None:
    async def scenario(candidates: Candidates) -> str:
        await alone(candidates, _ends)
        return (await candidates.lease()).spec.holder_identity

    assert run_candidates(scenario) == ""


def test_a_bug_in_the_act_comes_out_after_the_lease_is_given_back() -> None:
    async def scenario(candidates: Candidates) -> str:
        with pytest.raises(ExceptionGroup) as caught:
            await alone(candidates, _fails)
        assert caught.group_contains(LookupError, match="a bug")
        return (await candidates.lease()).spec.holder_identity

    assert run_candidates(scenario) == ""


def test_an_incarnation_is_named_after_its_host_and_like_no_other() -> None:
    rng = random.Random(0)
    names = {new_identity("node-1", rng) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("node-1_") for name in names)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
@pytest.mark.parametrize("warm", [True, False], ids=["a warm cache is replayed", "a list arrives"])
def test_the_lease_is_renewed_while_a_large_cluster_is_taken_in(warm: bool) -> None:
    """Twenty seconds of work, four milliseconds for each object: in one go it would last longer than the lease."""

    async def scenario(candidates: Candidates) -> None:
        clock, client = candidates.clock, candidates.server
        running = asyncio.get_running_loop()
        assert isinstance(running, virtual_time.VirtualLoop)
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

    run_candidates(scenario)
