"""Kinds kept as data for components from elsewhere: their authors should hear that nothing here acts on them."""

from mooring.server.admission.review import Review


async def warn_of_idleness(review: Review) -> None:
    kind = review.kind
    name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    review.warnings.append(f"{name}: this server keeps them as data only; no component of it acts on them")
