"""Putting a changed object in the place of a stored one: what update, patch and every subresource have in common.

carry over what cannot change ─► give back what the endpoint has no say in ─► admit ─► validate
    ─► nothing changed: no write        ─► last finalizer gone: delete        ─► otherwise: replace
"""

from functools import partial

from mooring.api.fields.table import type_of
from mooring.api.ownership.managers import UPDATE, Manager, Owners
from mooring.server.admission.review import Review
from mooring.server.admission.table import admit, admit_valid
from mooring.server.body import Body, is_deleting, meta
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.defaulting.table import fill_defaults
from mooring.server.deletion import is_held
from mooring.server.environment import Environment
from mooring.server.normal_form import fill_zero_values
from mooring.server.objects import Stored
from mooring.server.owners import FIELD, owners_after_update, record
from mooring.server.stamping import stamped, stored_form
from mooring.server.status import date_phase, isolate_status
from mooring.server.system_fields import carry_over, count_generation, count_template
from mooring.server.validation.table import require_valid_update


async def replace(
    environment: Environment,
    target: Target,
    stored: Stored,
    old: Body,
    new: Body,
    options: WriteOptions,
    *,
    warnings: tuple[str, ...] = (),
    owners: Owners | None = None,
    through: str = "",
) -> Written:
    """`old` is `stored`, decoded. Raises the store's Mismatch where that is no longer what is there.

    `owners` is who owns what afterwards; None leaves that to the rules for updates. `through` is the endpoint the
    writer used, where that is another than the target's.
    """
    kind, size = target.kind, max(options.body_bytes, stored.size)
    claimed = meta(new).pop(FIELD, None)
    sent = {**meta(new)}
    carry_over(new, old)
    await environment.run(partial(fill_defaults, kind, new), size)
    isolate_status(kind, new, old, target.subresource)
    review = Review(kind, target.namespace, new, environment, old, requested_name=target.name, sent_metadata=sent)
    if not target.subresource:
        await admit(review)
    date_phase(kind, new, old, environment.now())
    await environment.run(partial(require_valid_update, kind, new, old, target.subresource), size)
    if not target.subresource:
        await admit_valid(review)
    await environment.run(partial(fill_zero_values, type_of(kind.api_version, kind.kind), new), size)
    count_generation(kind, new, old)
    count_template(kind, new, old)
    if owners is None:
        writer = Manager(options.field_manager, UPDATE, kind.api_version, through or target.subresource)
        updated = partial(owners_after_update, kind, old, new, claimed, writer, environment.now())
        owners = await environment.run(updated, size)
    await environment.run(partial(record, new, owners), size)
    answer = await _settle(environment, stored, new, old, dry_run=options.dry_run)
    return Written(answer, warnings=(*warnings, *review.warnings))


async def _settle(environment: Environment, stored: Stored, new: Body, old: Body, *, dry_run: bool) -> bytes:
    if new == old:
        return stored.body
    if dry_run:
        return stamped(stored.kind, stored_form(stored.kind, new), stored.record.revision)
    if is_deleting(old) and not is_held(stored.kind, new):
        # Watchers see one DELETED with the object as it was; the writer gets what it wrote.
        revision = await environment.objects.remove(stored)
        return stamped(stored.kind, stored_form(stored.kind, new), revision)
    return (await environment.objects.replace(stored, new)).body
