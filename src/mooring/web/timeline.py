"""What happened to pods and their volumes, newest last: from Events, and from the marks on volumes as they change.

Pure and bounded. Events say what components told people; the marks say when a volume was held, given to its claim or
rolled back, also where nobody wrote an Event. Events about other things (images, probes) are left out.
"""

from collections.abc import Mapping
from typing import Final

from mooring.api.views.event import Event
from mooring.api.views.meta import View
from mooring.api.views.volume import Volume
from mooring.volumes.holds import objects as marks
from mooring.volumes.plan import HoldState, hold_state
from mooring.web.rows import Row, moment

#: As many as a person scrolls through; about 200 kB.
REMEMBERED: Final = 500
#: A scheduler's message about 5,000 nodes is long, and the explanation says it better.
LONGEST_TEXT: Final = 600

BINDING, HOLD, ROLLBACK, TROUBLE = "binding", "hold", "rollback", "trouble"

#: What is news even where it is no warning, and on which lane it is drawn. Upstream's reasons, and ours. That somebody
#: still waits (WaitForPodScheduled, ExternalProvisioning) is repeated every few seconds and is none.
LANES: Final[Mapping[str, str]] = {
    "Scheduled": BINDING,
    "Preempted": TROUBLE,
    "Provisioning": BINDING,
    "ProvisioningSucceeded": BINDING,
    "SuccessfulAttachVolume": BINDING,
    "VolumeCommitted": HOLD,
    "ProvisioningRolledBack": ROLLBACK,
    "RollbackFailed": ROLLBACK,
}
#: Whose warnings are news here.
ABOUT: Final = frozenset({"Pod", "PersistentVolumeClaim", "PersistentVolume", "Node"})


class EventSeriesView(View, frozen=True, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class DatedEvent(Event, frozen=True, gc=False):
    """An Event with the repeats of its newer form, which kube-scheduler counts instead of the old way."""

    series: EventSeriesView | None = None


class Happening(Row, frozen=True):
    """One line of the timeline; `about` is what it happened to."""

    at: float
    lane: str
    reason: str
    kind: str
    about: str
    text: str
    count: int = 1


class Timeline:
    """The last so many happenings by id. What changed since it was last asked is `picture`'s to find out."""

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._rows: dict[str, Happening] = {}
        self._marks = 0

    @property
    def rows(self) -> Mapping[str, Happening]:
        return self._rows

    def observe_event(self, before: DatedEvent | None, after: DatedEvent | None) -> None:
        """Events go after an hour; what they told stays until there is too much of it."""
        if after is not None and (happening := from_event(after)) is not None:
            self._put(happening)

    def observe_volume(
        self, before: Volume | None, after: Volume | None, *, hold_namespace: str, whose: str, now: float, live: bool
    ) -> None:
        """`live` is whether this happens now, instead of being listed for the first time."""
        was = None if before is None else hold_state(before, hold_namespace=hold_namespace)
        is_now = None if after is None else hold_state(after, hold_namespace=hold_namespace)
        volume = after if after is not None else before
        if volume is None or was is is_now:
            return
        notes = volume.metadata.annotations
        node = f" on {notes[marks.NODE]}" if marks.NODE in notes else ""
        match was, is_now:
            case _, HoldState.HELD:
                at = now if live else moment(notes.get(marks.SINCE)) or now
                self._mark(
                    volume, HOLD, "Held", f"held for {whose or 'a claim'}{node}, until the pod's others are there", at
                )
            case _ if not live:
                return
            case HoldState.HELD, HoldState.COMMITTED:
                self._mark(volume, HOLD, "Committed", f"given to {whose}: all of the pod's volumes are there", now)
            case HoldState.HELD, HoldState.FREE:
                self._mark(volume, ROLLBACK, "HoldLifted", "no longer held, free for any claim", now)
            case _, HoldState.ROLLING_BACK:
                why = f": {notes[marks.REASON]}" if marks.REASON in notes else ""
                self._mark(volume, ROLLBACK, "RollingBack", f"rolled back for {whose or 'a claim'}{node}{why}", now)
            case HoldState.ROLLING_BACK, None:
                self._mark(volume, ROLLBACK, "RolledBack", "gone: the storage is given back", now)
            case ((None | HoldState.FREE), HoldState.COMMITTED):
                self._mark(volume, BINDING, "Bound", f"given to {whose}", now)
            case _:
                return

    def _mark(self, volume: Volume, lane: str, reason: str, text: str, at: float) -> None:
        self._marks += 1
        self._put(Happening(f"mark-{self._marks}", at, lane, reason, "PersistentVolume", volume.name, text))

    def _put(self, happening: Happening) -> None:
        self._rows.pop(happening.id, None)
        self._rows[happening.id] = happening
        if len(self._rows) > self._remembered:
            del self._rows[next(iter(self._rows))]


def from_event(event: DatedEvent) -> Happening | None:
    """None for what is not news here."""
    about = event.involved_object
    lane = LANES.get(event.reason) or (TROUBLE if event.type == "Warning" else "")
    if about.kind not in ABOUT or not lane:
        return None
    series = event.series
    dates = (
        None if series is None else series.last_observed_time,
        event.last_timestamp,
        event.event_time,
        event.first_timestamp,
        event.metadata.creation_timestamp,
    )
    at = next((found for found in map(moment, dates) if found is not None), 0.0)
    key = f"{about.namespace}/{about.name}" if about.namespace else about.name
    text = event.message if len(event.message) <= LONGEST_TEXT else f"{event.message[:LONGEST_TEXT]}…"
    count = max(event.count, 1 if series is None else series.count, 1)
    return Happening(event.key, at, lane, event.reason, about.kind, key, text, count)
