"""The scheduling queue: which pod is tried next, and when a pod that failed is worth another try.

    put ──► ACTIVE ──pop──► IN_FLIGHT ──binding──► BINDING ──remove──► (placed)
              ▲  ▲              │ park                │ retry
        due   │  │ wake         ▼                     │
           BACKOFF ◄──wake── PARKED                   │
              ▲          (backing off still)          │
              └───────────────────────────────────────┘        GATED ──put without gates──► ACTIVE

A parked pod waits for a change that one of the plugins that rejected it says could help. Changes that arrive while
the pod is in flight are remembered and judged when it is parked, so that none is lost. As a last resort a parked pod
is tried again after five minutes. Pure: time is an argument, and nothing here waits.
"""

import enum
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.api.views.pod import Pod
from mooring.scheduler.changes import ADD
from mooring.scheduler.contract import Change, Hint, Plugin
from mooring.scheduler.interests import NO_INTERESTS, Interests, Topic

#: kube-scheduler's defaults of `Patience`.
FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
#: Seconds after which a parked pod is tried again although nothing happened; kube-scheduler's figure.
LONGEST_PARKED: Final = 300.0

#: Stands for the plugins when there was no node to ask them about: a first node is news for everybody.
_NOBODY: Final = ""

#: Why a pod is tried again where no change is the reason; for people.
EDITED: Final = "the pod itself changed"
UNGATED: Final = "its scheduling gates were lifted"
AFTER_ERROR: Final = "a while after it could not be bound"
LONG_PARKED: Final = "it had waited long and nothing had happened"


class Patience(NamedTuple):
    """Seconds before a failed pod may be tried again: doubling from the first to the longest."""

    first: float = FIRST_BACKOFF
    longest: float = LONGEST_BACKOFF

    def after(self, attempts: int) -> float:
        """How long to wait after so many attempts."""
        # Beyond a few doublings the longest delay rules; the bound keeps the power small.
        return min(self.first * 2.0 ** min(attempts - 1, 16), self.longest) if attempts else 0.0


class State(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    PARKED = "parked"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    BINDING = "binding"


@dataclass(eq=False, slots=True)
class Entry:
    """One pod's way through the queue. The queue alone changes it."""

    pod: Pod
    state: State = State.ACTIVE
    attempts: int = 0
    #: When it last joined the queue or failed: the age that decides among equal priorities.
    since: float = 0.0
    #: Names the place it stands in; places it stood in before are recognised by an older ticket.
    ticket: int = 0
    rejectors: frozenset[str] = frozenset()
    #: What it waits for, while it is parked.
    interests: Interests = NO_INTERESTS
    #: What happened since it was popped.
    missed: list[Change] = field(default_factory=list)
    edited: bool = False
    #: Why it is to be tried, "" for the first time: a change, or one of the texts above. Nothing is decided by it.
    woken: Change | str = ""
    #: Nodes on which no volume could be made for it, and how often.
    given_back: Counter[str] = field(default_factory=Counter)


#: A place in a heap: two numbers to order by, the ticket it was given for, and who stands there.
_Place = tuple[float, float, int, Entry]


class SchedulingQueue:
    """Every pod that is put and not removed is in exactly one state, and will be popped again unless it is gated."""

    def __init__(self, plugins: Iterable[Plugin], *, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._hints: defaultdict[tuple[str, str], list[tuple[str, Hint]]] = defaultdict(list)
        self._hints["Node", ADD].append((_NOBODY, Hint("Node", frozenset({ADD}))))
        for plugin in plugins:
            for hint in plugin.wakes_on:
                for what in hint.what:
                    self._hints[hint.kind, what].append((plugin.name, hint))
        self._entries: dict[str, Entry] = {}
        self._parked_by: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
        #: The same by what they wait for as well.
        self._parked_for: defaultdict[tuple[str, Topic], dict[str, Entry]] = defaultdict(dict)
        self._in_flight: dict[str, Entry] = {}
        self._active: list[_Place] = []
        self._backoff: list[_Place] = []
        self._parked: list[_Place] = []
        self._last_ticket = 0

    def __len__(self) -> int:
        return len(self._entries)

    def state_of(self, key: str) -> State | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.state

    def counts(self) -> Counter[State]:
        """How many pods are in which state. Looks at every pod."""
        return Counter(entry.state for entry in self._entries.values())

    def put(self, pod: Pod, now: float) -> None:
        """A pod without a node appeared or changed."""
        entry = self._entries.get(pod.key)
        if entry is not None and entry.pod.uid != pod.uid:
            self.remove(pod.key)
            entry = None
        if entry is None:
            entry = self._entries[pod.key] = Entry(pod, since=now)
            if pod.spec.scheduling_gates:
                entry.state = State.GATED
            else:
                self._activate(entry)
            return
        edited = _edited(entry.pod, pod)
        entry.pod = pod
        match entry.state:
            case State.GATED:
                if not pod.spec.scheduling_gates:
                    entry.since = now
                    entry.woken = UNGATED
                    self._activate(entry)
            case State.ACTIVE:
                if edited:
                    self._activate(entry)
            case State.PARKED:
                if edited:
                    self._unpark(entry, EDITED, now)
            case State.IN_FLIGHT:
                entry.edited |= edited
            case State.BACKOFF | State.BINDING:
                pass

    def remove(self, key: str) -> None:
        """The pod has its node, is gone, or is not ours any more. Whoever still works on it will be ignored."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(entry)

    def pop(self, now: float) -> Entry | None:
        """The pod to try now: highest priority, then longest waiting. None when all have to wait."""
        self._release_due(now)
        entry = self._first(self._active)
        if entry is None:
            return None
        heapq.heappop(self._active)
        self._enter(entry, State.IN_FLIGHT)
        entry.attempts += 1
        entry.missed.clear()
        entry.edited = False
        self._in_flight[entry.pod.key] = entry
        return entry

    def next_due(self, now: float) -> float | None:
        """When `pop` will next have something, if nothing happens until then; None when never."""
        if self._first(self._active) is not None:
            return now
        waiting = [entry for entry in (self._first(self._backoff), self._first(self._parked)) if entry is not None]
        return min((self._due(entry) for entry in waiting), default=None)

    def park(self, entry: Entry, rejectors: frozenset[str], interests: Interests, now: float) -> None:
        """No node for it: wait for a change that the rejecting plugins care about, and that is about its interests
        where they only care about such."""
        if not self._is_current(entry):
            return
        entry.since = now
        entry.rejectors = rejectors or frozenset({_NOBODY})
        entry.interests = interests
        missed = EDITED if entry.edited else next((each for each in entry.missed if self._helps(each, entry)), None)
        if missed is not None:
            entry.woken = missed
            self._back_off(entry)
            return
        self._enter(entry, State.PARKED)
        for plugin in entry.rejectors:
            self._parked_by[plugin][entry.pod.key] = entry
            for topic in interests.topics:
                self._parked_for[plugin, topic][entry.pod.key] = entry
        self._stand(self._parked, entry, self._due(entry))

    def binding(self, entry: Entry) -> None:
        """It has a node and is being bound. Changes no longer matter: a failure is retried in any case."""
        if self._is_current(entry):
            self._enter(entry, State.BINDING)

    def retry(self, entry: Entry, now: float, *, given_back: str = "") -> None:
        """Placing it failed for a reason that no plugin gave: try again after a while.

        `given_back` names the node that a provisioner could make no volume for.
        """
        if given_back:
            entry.given_back[given_back] += 1
        if self._is_current(entry):
            entry.since = now
            entry.woken = AFTER_ERROR
            self._back_off(entry)

    def wake(self, change: Change, now: float) -> None:
        """Something happened: move the parked pods that it can help."""
        for entry in self._in_flight.values():
            entry.missed.append(change)
        for plugin, hint in self._hints.get((change.kind, change.what), ()):
            for entry in self._concerned(plugin, hint, change):
                if hint.wakes(entry.pod, entry.interests, change):
                    self._unpark(entry, change, now)

    def _concerned(self, plugin: str, hint: Hint, change: Change) -> tuple[Entry, ...]:
        """The parked pods to ask about. Those who wait for something else, who may be thousands, are not looked at."""
        parked = self._parked_by.get(plugin)
        if not parked:
            # Most changes come while nobody waits: they cost nothing then.
            return ()
        if not hint.about:
            return tuple(parked.values())
        found: dict[str, Entry] = {}
        for topic in hint.topics_of(change):
            found |= self._parked_for.get((plugin, topic), {})
        return tuple(found.values())

    def _helps(self, change: Change, entry: Entry) -> bool:
        return any(
            plugin in entry.rejectors and hint.wakes(entry.pod, entry.interests, change)
            for plugin, hint in self._hints.get((change.kind, change.what), ())
        )

    def _is_current(self, entry: Entry) -> bool:
        return self._entries.get(entry.pod.key) is entry

    def _enter(self, entry: Entry, state: State) -> None:
        self._leave(entry)
        self._last_ticket += 1
        entry.ticket = self._last_ticket
        entry.state = state

    def _leave(self, entry: Entry) -> None:
        """Out of the collections it is found in by key; heaps notice by the ticket."""
        entry.ticket = 0
        match entry.state:
            case State.PARKED:
                for plugin in entry.rejectors:
                    del self._parked_by[plugin][entry.pod.key]
                    for topic in entry.interests.topics:
                        del self._parked_for[plugin, topic][entry.pod.key]
                        if not self._parked_for[plugin, topic]:
                            del self._parked_for[plugin, topic]
            case State.IN_FLIGHT:
                self._in_flight.pop(entry.pod.key, None)
            case _:
                pass

    def _activate(self, entry: Entry) -> None:
        self._enter(entry, State.ACTIVE)
        self._stand(self._active, entry, -entry.pod.spec.priority, entry.since)

    def _back_off(self, entry: Entry) -> None:
        self._enter(entry, State.BACKOFF)
        self._stand(self._backoff, entry, self._due(entry))

    def _unpark(self, entry: Entry, woken: Change | str, now: float) -> None:
        entry.woken = woken
        if self._backs_off_until(entry) > now:
            self._back_off(entry)
        else:
            self._activate(entry)

    def _release_due(self, now: float) -> None:
        for heap in (self._backoff, self._parked):
            while (entry := self._first(heap)) is not None and self._due(entry) <= now:
                heapq.heappop(heap)
                if entry.state is State.PARKED:
                    entry.woken = LONG_PARKED
                self._activate(entry)

    def _due(self, entry: Entry) -> float:
        return entry.since + LONGEST_PARKED if entry.state is State.PARKED else self._backs_off_until(entry)

    def _backs_off_until(self, entry: Entry) -> float:
        return entry.since + self._patience.after(entry.attempts)

    @staticmethod
    def _stand(heap: list[_Place], entry: Entry, first: float, second: float = 0.0) -> None:
        heapq.heappush(heap, (first, second, entry.ticket, entry))

    @staticmethod
    def _first(heap: list[_Place]) -> Entry | None:
        """Who stands first, past the places that were left meanwhile."""
        while heap:
            _, _, ticket, entry = heap[0]
            if entry.ticket == ticket:
                return entry
            heapq.heappop(heap)
        return None


def _edited(before: Pod, after: Pod) -> bool:
    """Whether a pod asks for something else than before; our own notes in its status are no reason to try again."""
    return before.spec != after.spec or before.metadata.labels != after.metadata.labels
