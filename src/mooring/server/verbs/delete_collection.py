"""Delete a collection: every object that a list with the same selectors would show, one after the other."""

import msgspec

from mooring.api.errors import NotFound, method_not_allowed
from mooring.api.views.meta import ApiObject
from mooring.server.contract import DeleteOptions, ListOptions, Page, Target
from mooring.server.deletion import check_delete_options
from mooring.server.environment import Environment
from mooring.server.verbs.delete import delete_object
from mooring.server.verbs.list import list_objects

_decode = msgspec.json.Decoder(ApiObject).decode


async def delete_objects(
    environment: Environment, target: Target, selection: ListOptions, options: DeleteOptions
) -> Page:
    """The objects as they were. One that went by itself meanwhile is nobody's loss; a limit is kept, because deleting
    more than was asked for is not a matter of taste."""
    if "deletecollection" not in target.kind.verbs:
        raise method_not_allowed()
    check_delete_options(options)
    page = await list_objects(environment, target, selection)
    # A list of any version does not count.
    items = page.items[: selection.limit] if selection.limit > 0 else page.items
    for item in items:
        found = _decode(item)
        one = Target(target.kind, found.namespace, found.name)
        try:
            await delete_object(environment, one, options)
        except NotFound:
            continue
    return Page(items, page.resource_version, page.continue_token, page.remaining)
