"""Fault injection: an interceptor of the CSI server that fails calls by rule.

Rules are `CALL=CODE[,before|after][,count=N][,skip=N][,probability=P]`. With `before` the call is not executed, with
`after` it is executed and the response is lost.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from mooring.csi.contract import Code, DriverError

T = TypeVar("T")


class BadRule(Exception):
    """The rule is invalid; the text says why."""


@dataclass(slots=True)
class Rule:
    """`count` is the number of remaining failures; None is unlimited."""

    call: str
    code: Code
    after: bool = False
    skip: int = 0
    count: int | None = None
    probability: float = 1.0

    def strikes(self, chance: Random) -> bool:
        """Whether this call fails; calls that pass by `probability` do not count."""
        if self.count == 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.probability < 1.0 and chance.random() >= self.probability:
            return False
        if self.count is not None:
            self.count -= 1
        return True


class InjectedFailures:
    def __init__(self, rules: Sequence[Rule], *, chance: Random) -> None:
        self._rules = rules
        self._chance = chance

    async def __call__(self, call: str, request: object, proceed: Callable[[], Awaitable[T]]) -> T:
        self._strike(call, after=False)
        answer = await proceed()
        self._strike(call, after=True)
        return answer

    def _strike(self, call: str, *, after: bool) -> None:
        for rule in self._rules:
            if (rule.call, rule.after) == (call, after) and rule.strikes(self._chance):
                when = "after" if after else "before"
                raise DriverError(rule.code, f"injected failure {when} {call}")


def parse_rule(text: str, *, calls: Collection[str]) -> Rule:
    call, _, rest = text.partition("=")
    code, *options = rest.split(",")
    if call not in calls:
        raise BadRule(f"{text!r}: unknown call {call!r}; choose from {', '.join(sorted(calls))}")
    if code not in Code.__members__:
        raise BadRule(f"{text!r}: {code!r} is not a gRPC code; choose from {', '.join(Code.__members__)}")
    rule = Rule(call, Code[code])
    for option in options:
        _apply(rule, option, text)
    return rule


def _apply(rule: Rule, option: str, text: str) -> None:
    name, _, value = option.partition("=")
    try:
        match name:
            case "before" | "after" if not value:
                rule.after = name == "after"
            case "count":
                rule.count = _not_negative(int(value))
            case "skip":
                rule.skip = _not_negative(int(value))
            case "probability":
                rule.probability = float(value)
                if not 0.0 <= rule.probability <= 1.0:
                    raise ValueError
            case _:
                raise BadRule(f"{text!r}: {option!r} must be one of before, after, count=N, skip=N, probability=P")
    except ValueError as error:
        raise BadRule(f"{text!r}: invalid value {value!r} for {name}") from error


def _not_negative(number: int) -> int:
    if number < 0:
        raise ValueError
    return number
