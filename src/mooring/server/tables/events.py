"""Events, in both styles: counted ones with first and last times, and new ones with a series."""

from typing import Final

from mooring.api.durations import UNKNOWN
from mooring.api.event_forms import to_old
from mooring.server.tables.columns import WIDE, Cell, Column, Printer
from mooring.server.tables.reading import Json, name, number, part, since, text


def _cells(event: Json, now: float) -> tuple[Cell, ...]:
    first = since(text(event, "firstTimestamp") or text(event, "eventTime"), now)
    last, count = since(text(event, "lastTimestamp"), now), number(event, "count") or 1
    if last == UNKNOWN:
        last = first
    if series := part(event, "series"):
        last, count = since(text(series, "lastObservedTime"), now), number(series, "count")
    return (
        last,
        text(event, "type"),
        text(event, "reason"),
        _involved(part(event, "involvedObject")),
        text(event, "involvedObject", "fieldPath"),
        _source(event),
        text(event, "message").strip(),
        first,
        count,
        name(event),
    )


def _involved(reference: Json) -> str:
    kind = text(reference, "kind").lower()
    return f"{kind}/{text(reference, 'name')}" if text(reference, "name") else kind


def _source(event: Json) -> str:
    component = text(event, "source", "component") or text(event, "reportingComponent")
    instance = text(event, "source", "host") or text(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


EVENTS: Final = Printer(
    columns=(
        Column("Last Seen", description="Time since it happened last."),
        Column("Type", description="Normal or Warning."),
        Column("Reason", description="Why it happened, in one word."),
        Column("Object", description="What it happened to."),
        Column("Subobject", description="Which part of the object.", priority=WIDE),
        Column("Source", description="Who reports it.", priority=WIDE),
        Column("Message", description="What happened."),
        Column("First Seen", description="Time since it happened first.", priority=WIDE),
        Column("Count", description="How often it happened.", priority=WIDE),
        Column("Name", format="name", description="Name of the event.", priority=WIDE),
    ),
    cells=_cells,
)

NEW_EVENTS: Final = Printer(columns=EVENTS.columns, cells=lambda event, now: _cells(to_old(event), now))
