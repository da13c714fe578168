"""Events, in the core form that kubectl describes objects with."""

from mooring.api.views.meta import ApiObject, ObjectReference, View


class EventSource(View, frozen=True, gc=False):
    component: str = ""
    host: str = ""


class Event(ApiObject, frozen=True, gc=False):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    #: Who says it, in events of the new form.
    reporting_component: str = ""
    #: The one moment that events of the new form are sure to have.
    event_time: str | None = None
