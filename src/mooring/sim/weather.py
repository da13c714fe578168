"""A fault plan in force: which fault strikes whom, and whether it does yet.

One `Weather` for the whole world, one `Luck` per instance in it. Nothing strikes before `begin`, so that every run
starts from a cluster that is up, and nothing after `calm`, so that what is left undone then is nobody's fault. Both
count and look up; they do nothing.
"""

from collections import Counter
from collections.abc import Sequence

from mooring.clock import Clock
from mooring.sim.faults import (
    BadCall,
    BadRpc,
    BadWatch,
    BadWrite,
    Crash,
    FaultPlan,
    Intervention,
    Pause,
    ServerRestart,
    WatchTrouble,
)


class Weather:
    def __init__(self, plan: FaultPlan, clock: Clock) -> None:
        self.plan = plan
        self._clock = clock
        self._began: float | None = None
        self._calm = False
        self._server_back = 0.0
        self._writes = 0
        self._bad_writes = {fault.write: fault for fault in plan.of(BadWrite)}
        self._stored = 0

    def begin(self) -> None:
        self._began = self._clock.monotonic()

    def calm(self) -> None:
        self._calm = True

    @property
    def rough(self) -> bool:
        return self._began is not None and not self._calm

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    @property
    def server_is_away(self) -> bool:
        return self._clock.monotonic() < self._server_back

    def take_server_away(self, seconds: float) -> None:
        self._server_back = self._clock.monotonic() + seconds

    def after_write(self) -> list[ServerRestart | Intervention]:
        """Somebody wrote something: what is due now."""
        if not self.rough:
            return []
        self._writes += 1
        faults = self.plan.faults
        return [f for f in faults if isinstance(f, ServerRestart | Intervention) and f.write == self._writes]

    def next_store_write(self) -> BadWrite | None:
        """A component's write has come as far as the store."""
        if not self.rough:
            return None
        self._stored += 1
        return self._bad_writes.get(self._stored)


class Luck:
    """What happens to one instance, through all its incarnations."""

    def __init__(self, weather: Weather, who: str) -> None:
        plan = weather.plan
        self._weather = weather
        self._calls = {(fault.events, fault.call): fault for fault in plan.of(BadCall) if fault.who == who}
        self._crashes = {fault.write: fault for fault in plan.of(Crash) if fault.who == who}
        self._watches = [fault for fault in plan.of(BadWatch) if fault.who == who]
        self._pauses = [fault for fault in plan.of(Pause) if fault.who == who]
        self._rpcs = {(fault.rpc, fault.call): fault for fault in plan.of(BadRpc) if fault.who == who}
        self._rpcs_called: Counter[str] = Counter()
        self._called: Counter[bool] = Counter()
        self._written = self._watched = 0

    def next_call(self, *, events: bool = False) -> BadCall | None:
        """`events` says that the request is about an Event."""
        if not self._weather.rough:
            return None
        self._called[events] += 1
        return self._calls.get((events, self._called[events]))

    def next_rpc(self, rpc: str) -> BadRpc | None:
        if not self._weather.rough:
            return None
        self._rpcs_called[rpc] += 1
        return self._rpcs.get((rpc, self._rpcs_called[rpc]))

    def next_write(self) -> Crash | None:
        """A write took effect: whether the instance lives to hear of it."""
        if not self._weather.rough:
            return None
        self._written += 1
        return self._crashes.get(self._written)

    def next_watch(self) -> "WatchLuck":
        """A watch was opened."""
        self._watched += 1
        return WatchLuck(self._weather, [fault for fault in self._watches if fault.watch == self._watched])

    def pause(self) -> float:
        """How many seconds it must stand still now."""
        if not self._weather.rough:
            return 0.0
        age = self._weather.age
        return max((p.at + p.seconds - age for p in self._pauses if p.at <= age < p.at + p.seconds), default=0.0)


class WatchLuck:
    """What happens to one watch."""

    def __init__(self, weather: Weather, faults: Sequence[BadWatch]) -> None:
        self._weather = weather
        self._faults = {fault.after: fault for fault in faults}
        self._events = 0

    def refusal(self) -> BadWatch | None:
        """Asked when it is opened: a refusal before the first event."""
        fault = self._faults.get(0) if self._weather.rough else None
        return fault if fault is not None and fault.trouble is WatchTrouble.REFUSED else None

    def next_event(self) -> BadWatch | None:
        """Asked before each event."""
        if not self._weather.rough:
            return None
        self._events += 1
        return self._faults.get(self._events - 1)
