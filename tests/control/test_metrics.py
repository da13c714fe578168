from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from mooring import __version__
from mooring.control.metrics import QUEUE_BUCKETS, Metrics


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def series(metrics: Metrics) -> dict[str, float]:
    """`name{bound,name}` and its value, as a scraper reads them."""
    return {
        f"{sample.name}{{{','.join(sample.labels[label] for label in sorted(sample.labels))}}}": sample.value
        for family in text_string_to_metric_families(metrics.expose().decode())
        for sample in family.samples
    }


def test_a_queue_s_series_are_there_at_zero_before_anything_happens() -> None:
    metrics = Metrics(ManualClock())
    metrics.queue("claims")
    found = {name: value for name, value in series(metrics).items() if name.startswith("workqueue_")}
    assert {name for name in found if "_bucket" not in name} == {
        "workqueue_depth{claims}",
        "workqueue_adds_total{claims}",
        "workqueue_queue_duration_seconds_count{claims}",
        "workqueue_queue_duration_seconds_sum{claims}",
        "workqueue_work_duration_seconds_count{claims}",
        "workqueue_work_duration_seconds_sum{claims}",
        "workqueue_retries_total{claims}",
    }
    assert set(found.values()) == {0.0}


def test_a_key_s_way_through_a_queue() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    queue = metrics.queue("claims")
    queue.added("shop/data")
    queue.added("shop/logs")
    assert series(metrics)["workqueue_depth{claims}"] == 2
    clock.seconds = 0.0625
    queue.taken("shop/data")
    queue.added("shop/data")
    clock.seconds = 2.0625
    queue.done("shop/data")
    queue.retried()
    found = series(metrics)
    assert found["workqueue_depth{claims}"] == 2
    assert found["workqueue_adds_total{claims}"] == 3
    assert found["workqueue_retries_total{claims}"] == 1
    assert found["workqueue_queue_duration_seconds_sum{claims}"] == 0.0625
    assert found["workqueue_queue_duration_seconds_bucket{0.01,claims}"] == 0
    assert found["workqueue_queue_duration_seconds_bucket{0.1,claims}"] == 1
    assert found["workqueue_work_duration_seconds_sum{claims}"] == 2.0
    assert found["workqueue_work_duration_seconds_bucket{1.0,claims}"] == 0
    assert found["workqueue_work_duration_seconds_bucket{10.0,claims}"] == 1


@given(waits=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=20))
def test_what_went_through_adds_up(waits: list[tuple[float, float]]) -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    queue = metrics.queue("q")
    for waited, worked in waits:
        queue.added("key")
        clock.seconds += waited
        queue.taken("key")
        clock.seconds += worked
        queue.done("key")
    found = series(metrics)
    assert found["workqueue_depth{q}"] == 0
    assert found["workqueue_adds_total{q}"] == len(waits)
    for what in ("queue", "work"):
        assert found[f"workqueue_{what}_duration_seconds_count{{q}}"] == len(waits)
        counts = [found[f"workqueue_{what}_duration_seconds_bucket{{{bound},q}}"] for bound in (*QUEUE_BUCKETS, "+Inf")]
        assert counts == sorted(counts)
        assert counts[-1] == len(waits)


def test_queues_have_separate_series() -> None:
    metrics = Metrics(ManualClock())
    metrics.queue("claims").added("a")
    metrics.queue("volumes").retried()
    found = series(metrics)
    assert (found["workqueue_adds_total{claims}"], found["workqueue_adds_total{volumes}"]) == (1, 0)
    assert (found["workqueue_retries_total{claims}"], found["workqueue_retries_total{volumes}"]) == (0, 1)


def test_leader_is_exported() -> None:
    metrics = Metrics(ManualClock())
    report = metrics.leader("mooring-scheduler")
    name = "leader_election_master_status{mooring-scheduler}"
    shown = [series(metrics)[name]]
    for leads in (True, False):
        report(leads)
        shown.append(series(metrics)[name])
    assert shown == [0, 1, 0]


def test_every_process_says_of_which_version_it_is() -> None:
    assert series(Metrics(ManualClock()))[f"mooring_build_info{{{__version__}}}"] == 1


def test_processes_do_not_add_up() -> None:
    one, other = Metrics(ManualClock()), Metrics(ManualClock())
    one.queue("claims").added("a")
    assert other.expose() != one.expose()
    assert "workqueue_adds_total{claims}" not in series(other)


def test_components_add_metrics_of_their_own() -> None:
    metrics = Metrics(ManualClock())
    Counter("scheduler_schedule_attempts_total", "Attempts.", registry=metrics.registry).inc()
    assert series(metrics)["scheduler_schedule_attempts_total{}"] == 1


def test_what_is_exposed_says_what_it_is_and_carries_no_dates() -> None:
    metrics = Metrics(ManualClock())
    metrics.queue("claims").added("a")
    lines = metrics.expose().decode().splitlines()
    assert "# TYPE workqueue_adds_total counter" in lines
    assert "# TYPE workqueue_queue_duration_seconds histogram" in lines
    assert 'workqueue_depth{name="claims"} 1.0' in lines
    assert not any("_created" in line for line in lines)
