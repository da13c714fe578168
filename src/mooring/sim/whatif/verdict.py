"""The one sentence that a what-if answer begins with. Pure."""

from collections.abc import Iterator

from mooring.sim.whatif.outcome import Outcome


def is_good(outcome: Outcome) -> bool:
    """Whether everything that should run does."""
    return not (outcome.pending or outcome.shortfalls or outcome.blocked or outcome.lost)


def verdict(outcome: Outcome) -> str:
    placed, waiting = len(outcome.placements), len(outcome.pending)
    if is_good(outcome):
        if not placed:
            return "Nothing has to be placed, and nothing stays pending."
        return f"{_all(placed)} a place."
    parts = [*_troubles(outcome)]
    lead = f"{placed} of {placed + waiting} pods find a place" if waiting else f"{_all(placed)} a place"
    return f"{lead}; {' and '.join(parts)}." if placed else f"{_capital(' and '.join(parts))}."


def _troubles(outcome: Outcome) -> Iterator[str]:
    if outcome.pending:
        already = sum(each.already for each in outcome.pending)
        before = f" ({already} did before)" if already else ""
        yield f"{_pods(len(outcome.pending))} {_verb(len(outcome.pending), 'stays', 'stay')} pending{before}"
    if outcome.shortfalls:
        missing = sum(each.wanted - each.pods for each in outcome.shortfalls)
        yield f"{_pods(missing)} {_verb(missing, 'is', 'are')} not even made"
    if outcome.blocked:
        count = len(outcome.blocked)
        yield f"{_pods(count)} {_verb(count, 'does', 'do')} not leave {_verb(count, 'its', 'their')} node"
    if outcome.lost:
        yield f"{_pods(len(outcome.lost))} {_verb(len(outcome.lost), 'is', 'are')} lost"


def _all(count: int) -> str:
    return "The one pod to place finds" if count == 1 else f"All {count} pods to place find"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _verb(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
