"""List a collection: in namespace and name order, stamped but not decoded, whole or in pages.

All pages of a list show the state the first one showed; where what happened since then is no longer kept, a page is
refused with a token that goes on with the newest state instead.
"""

from typing import Final, NamedTuple

from mooring.api.errors import BadRequest, Expired
from mooring.clock import Clock
from mooring.server import continue_tokens
from mooring.server.contract import ListOptions, Page, Target
from mooring.server.environment import Environment
from mooring.server.selection import Selection
from mooring.server.stamping import all_stamped
from mooring.server.versions import ANY, check_list, parse, reached, too_old, wants_exactly
from mooring.store.contract import Compacted, Listing, Record, Revision

_INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)

#: Objects that are looked at before others get a turn: a selector takes up to some ten microseconds for each.
_AT_A_STRETCH: Final = 500


class _Place(NamedTuple):
    """Where a page begins."""

    #: None is the newest state.
    at: Revision | None
    #: The first key; empty is the beginning.
    start: str


async def list_objects(environment: Environment, target: Target, options: ListOptions) -> Page:
    check_list(options)
    selection = Selection(target.kind, labels=options.labels, fields=options.fields)
    limit = 0 if options.resource_version == ANY and not options.continue_token else max(options.limit, 0)
    place = await _place(environment, target, options)
    # With selectors, only looking at the objects tells how far a page reaches.
    listing = await _listing(environment, target, place, limit if selection.is_everything else 0)
    records, rest = listing.records, listing.remaining
    if not selection.is_everything:
        records, rest = await _selected(selection, records, limit, environment.clock)
    items, version = all_stamped(target.kind, records), str(listing.revision)
    if not rest:
        return Page(items, version)
    prefix = target.kind.store_prefix(target.namespace)
    token = continue_tokens.encode(listing.revision, f"{records[-1].key}\0", prefix)
    return Page(items, version, token, rest if selection.is_everything else None)


async def _place(environment: Environment, target: Target, options: ListOptions) -> _Place:
    if options.continue_token:
        prefix = target.kind.store_prefix(target.namespace)
        version, start = continue_tokens.decode(options.continue_token, prefix)
        if options.resource_version not in ("", ANY):
            raise BadRequest("specifying resource version is not allowed when using continue")
        if version < 0:
            return _Place(None, start)
        at = Revision(version)
        await reached(environment, at)
        return _Place(at, start)
    try:
        wanted = parse(options.resource_version)
    except ValueError as problem:
        raise BadRequest(f"invalid resource version: {problem}") from problem
    await reached(environment, wanted)
    return _Place(wanted if wants_exactly(options) else None, "")


async def _listing(environment: Environment, target: Target, place: _Place, limit: int) -> Listing:
    kind, namespace = target.kind, target.namespace
    try:
        return await environment.objects.list(kind, namespace, at=place.at, start=place.start, limit=limit)
    except Compacted as gone:
        if not place.start:
            raise too_old() from gone
        token = continue_tokens.encode(continue_tokens.NEWEST, place.start, kind.store_prefix(namespace))
        raise Expired(_INCONSISTENT, continue_token=token) from gone


async def _selected(
    selection: Selection, records: tuple[Record, ...], limit: int, clock: Clock
) -> tuple[tuple[Record, ...], int]:
    """Those that are selected, up to the limit, and how many were not looked at. Other requests get their turns
    meanwhile; `records` are what they were."""
    chosen: list[Record] = []
    for position, record in enumerate(records, start=1):
        if position % _AT_A_STRETCH == 0:
            await clock.sleep(0)
        if selection.admits(record.value):
            chosen.append(record)
            if len(chosen) == limit:
                return tuple(chosen), len(records) - position
    return tuple(chosen), 0
