"""What the scheduler kept of its attempts for a pod, in words, for its story. Pure.

Events say that a pod was not placed and merge the times it was tried; the scheduler's own log (`scheduler.attempt_log`)
has each attempt: why then, which nodes, who came second, what was promised to which claim, how long it took.
"""

from typing import Final

from mooring.scheduler.attempt_log import Attempt, Objection
from mooring.scheduler.metrics import Result

#: Reasons told in one line; `-o json` has all of them.
REASONS_TOLD: Final = 6


def told(attempt: Attempt, *, whose: str = "") -> str:
    """One line; `whose` says it where the attempt was not for the pod that is there now."""
    woken = f", because {attempt.woken_by}" if attempt.woken_by else ""
    return f"attempt {attempt.number}{whose}{woken}: {_verdict(attempt)}"


def _verdict(attempt: Attempt) -> str:
    against = _against(attempt)
    if not attempt.node:
        told = f"no node of {attempt.considered}{f': {against}' if against else ''}"
        return f"{told}; others are to make way on {attempt.nominated}" if attempt.nominated else told
    parts = [_choice(attempt)]
    parts += [f"not {against}"] if against else []
    parts += [_supplied(attempt)] if attempt.supplies else []
    return "; ".join([*parts, _end(attempt)])


def _choice(attempt: Attempt) -> str:
    if not attempt.runner_up:
        return f"chose {attempt.node}, the only one of {attempt.considered}"
    among = f"{attempt.feasible} of {attempt.considered} nodes that would do"
    if attempt.runner_up_score == attempt.score:
        return f"chose {attempt.node} among {among}, by lot: {attempt.runner_up} had as many points"
    score, second = f"{attempt.score:.0f}", f"{attempt.runner_up_score:.0f}"
    if score == second:
        score, second = f"{attempt.score:.2f}", f"{attempt.runner_up_score:.2f}"
    return f"chose {attempt.node} among {among}, with {score} points before {attempt.runner_up} with {second}"


def _against(attempt: Attempt) -> str:
    told = [_objected(each) for each in attempt.objections[:REASONS_TOLD]]
    more = len(attempt.objections) - len(told) + attempt.omitted
    return ", ".join(told) + (f" and {more} reasons more" if more else "")


def _objected(objection: Objection) -> str:
    if not objection.examples:
        return objection.reason
    more = objection.nodes - len(objection.examples)
    names = ", ".join(objection.examples) + (f" and {more} more" if more else "")
    return f"{names} ({objection.reason})"


def _supplied(attempt: Attempt) -> str:
    given = [f"{each.claim} is to get {each.volume or 'a volume that is made'}" for each in attempt.supplies]
    return ", ".join(given)


def _end(attempt: Attempt) -> str:
    match attempt.result:
        case None:
            return "is being bound"
        case Result.SCHEDULED:
            return f"bound after {_seconds(attempt.seconds)}"
        case _:
            return f"failed after {_seconds(attempt.seconds)}: {attempt.message}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
