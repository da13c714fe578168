"""List a collection: everything in one page, in namespace and name order, stamped but not decoded.

`limit` is a hint and is not taken; no `continue` is ever given out, so one that comes back is not ours.
"""

from mooring.api.errors import BadRequest
from mooring.server.contract import ListOptions, Page, Target
from mooring.server.environment import Environment
from mooring.server.selection import Selection
from mooring.server.stamping import all_stamped
from mooring.server.versions import check_list, parse, reached, too_old, wants_exactly
from mooring.store.contract import Listing


async def list_objects(environment: Environment, target: Target, options: ListOptions) -> Page:
    check_list(options)
    selection = Selection(target.kind, labels=options.labels, fields=options.fields)
    listing = await _listing(environment, target, options)
    selected = listing.records if selection.is_everything else (r for r in listing.records if selection.admits(r.value))
    return Page(all_stamped(target.kind, selected), str(listing.revision))


async def _listing(environment: Environment, target: Target, options: ListOptions) -> Listing:
    try:
        wanted = parse(options.resource_version)
    except ValueError as problem:
        raise BadRequest(f"invalid resource version: {problem}") from problem
    await reached(environment, wanted)
    listing = await environment.objects.list(target.kind, target.namespace)
    if wants_exactly(options) and listing.revision != wanted:
        raise too_old()
    return listing
