"""What components have told about objects, newest last: the events among the listed objects, by what they are about."""

from collections import defaultdict

from mooring.api.kinds import EVENT, Kind
from mooring.api.views.event import Event
from mooring.api.views.meta import ApiObject
from mooring.explain.cluster_objects import ClusterObjects


class Events:
    def __init__(self, objects: ClusterObjects) -> None:
        self._about: defaultdict[tuple[str, str, str], list[Event]] = defaultdict(list)
        for event in sorted(objects.of(EVENT), key=lambda one: (moment(one), one.key)):
            about = event.involved_object
            self._about[about.kind, about.namespace, about.name].append(event)
        #: The components that have told something.
        self.tellers = frozenset(teller(event) for event in objects.of(EVENT))

    def about(self, kind: Kind[ApiObject], thing: ApiObject, *reasons: str) -> list[Event]:
        """Of this very object, not of an earlier one of that name; of all reasons unless some are named."""
        return [
            event
            for event in self._about[kind.kind, thing.namespace, thing.name]
            if event.involved_object.uid in ("", thing.uid) and (not reasons or event.reason in reasons)
        ]

    def last(self, kind: Kind[ApiObject], thing: ApiObject, *reasons: str) -> Event | None:
        found = self.about(kind, thing, *reasons)
        return found[-1] if found else None


def moment(event: Event) -> str:
    """When it was told last. RFC 3339 in UTC, so that texts compare as moments do."""
    return event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp or ""


def teller(event: Event) -> str:
    """Who told it; events of the new form name that elsewhere."""
    return event.source.component or event.reporting_component


def began(event: Event) -> str:
    """When it was told first."""
    return event.first_timestamp or event.event_time or moment(event)
