"""Label selectors, in both spellings: the query string's `a=b,c in (d,e),!f` and an object's
`matchLabels` with `matchExpressions`.

Both become one frozen, hashable value in one order, so that equal selectors are equal objects and can
share what was computed for them. Node selectors reuse `Requirement`. Not here: field selectors, and the
reading of a selector that is absent, which means "nothing" in some fields and "everything" in others;
the caller who knows the field picks NOTHING or EVERYTHING.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, Self

import msgspec

from mooring.api import object_names

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "ExpressionView",
    "LabelSelector",
    "Operator",
    "Requirement",
    "SelectorError",
    "from_view",
    "parse",
]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_END: Final = 2**63


class SelectorError(ValueError):
    """The selector cannot be understood; the text says where."""


class ExpressionView(Protocol):
    """One entry of matchExpressions as a read view has it."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


class Operator(enum.StrEnum):
    """How a requirement looks at a label; the values are the API's words."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One condition on one label. `a=b` is In with one value, `a!=b` NotIn with one."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Iterable[str] = ()) -> Self:
        """The requirement with its values in order, or SelectorError naming all that is wrong."""
        given = tuple(values)
        if problems := _requirement_problems(key, operator, given):
            raise SelectorError("; ".join(problems))
        return cls(key, operator, tuple(sorted(set(given))))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                found, bound = _as_int64(value), _as_int64(self.values[0])
                if found is None or bound is None:
                    return False
                return found > bound if self.operator is Operator.GT else found < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case Operator.NOT_IN if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({','.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GT:
                return f"{self.key}>{self.values[0]}"
            case Operator.LT:
                return f"{self.key}<{self.values[0]}"


class LabelSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements that must all hold. Build it with `parse` or `from_view`, which put them in order."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False

    @property
    def words(self) -> int:
        """Keys and values in it: what caches of selectors are bounded by."""
        return sum(1 + len(one.values) for one in self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.never and all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        # A selector for nothing has no spelling; this text no server accepts, while "" selects all.
        return "<nothing>" if self.never else ",".join(map(str, self.requirements))


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(never=True)


def parse(text: str) -> LabelSelector:
    """The selector a `labelSelector` query parameter spells; the empty text selects everything."""
    return _selector(_Parser(text).requirements())


def from_view(match_labels: Mapping[str, str], match_expressions: Iterable[ExpressionView] = ()) -> LabelSelector:
    """The selector an object carries; one that is present but empty selects everything."""
    requirements = [Requirement.checked(key, Operator.IN, (v,)) for key, v in match_labels.items()]
    for expression in match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(Requirement.checked(expression.key, operator, expression.values))
    return _selector(requirements)


#: Objects compare with four of the six: Gt and Lt belong to query strings and node selectors.
_OBJECT_OPERATORS: Final[Mapping[str, Operator]] = {
    str(operator): operator for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(set(requirements))))


def _requirement_problems(key: str, operator: Operator, values: tuple[str, ...]) -> list[str]:
    problems = [f'key: Invalid value: "{key}": {why}' for why in object_names.check_qualified_name(key)]
    if why := _wrong_values(operator, values):
        quoted = ", ".join(f'"{value}"' for value in values)
        problems.append(f"values: Invalid value: [{quoted}]: {why}")
    problems.extend(
        f'values[{index}][{key}]: Invalid value: "{value}": {why}'
        for index, value in enumerate(values)
        for why in object_names.check_label_value(value)
    )
    return problems


def _wrong_values(operator: Operator, values: tuple[str, ...]) -> str:
    """Why an operator cannot work with these values; empty when it can."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return "" if values else "for 'in', 'notin' operators, values set can't be empty"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return "values set must be empty for exists and does not exist" if values else ""
        case Operator.GT | Operator.LT:
            if len(values) != 1:
                return "for 'Gt', 'Lt' operators, exactly one value is required"
            if _as_int64(values[0]) is None:
                return "for 'Gt', 'Lt' operators, the value must be an integer"
            return ""


def _as_int64(text: str | None) -> int | None:
    """The number as Go reads it; Python's int() would take spaces, underscores and other digits too."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_END <= number < _INT64_END else None


_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", ">", "<"})
_TOKEN: Final = re.compile(r"==|!=|[=!(),><]|[^ \t\r\n=!(),><]+")
_END: Final = ""
_ONE_VALUE: Final[Mapping[str, Operator]] = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GT,
    "<": Operator.LT,
}
_VALUE_SET: Final[Mapping[str, Operator]] = {"in": Operator.IN, "notin": Operator.NOT_IN}


class _Parser:
    """Recursive descent over the tokens of one selector. `in` and `notin` are words like any other
    except in the operator's place: `in in (in)` is a selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() == _END:
            return found
        if not self._starts_requirement():
            raise SelectorError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except SelectorError as problem:
                raise SelectorError(f"unable to parse requirement: {problem}") from None
            separator = self._take()
            if separator == _END:
                return found
            if separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._starts_requirement():
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._identifier()
        if absent:
            return Requirement.checked(key, Operator.DOES_NOT_EXIST)
        if self._peek() in (_END, ","):
            return Requirement.checked(key, Operator.EXISTS)
        word = self._take()
        if word in _ONE_VALUE:
            return Requirement.checked(key, _ONE_VALUE[word], (self._one_value(),))
        if word in _VALUE_SET:
            return Requirement.checked(key, _VALUE_SET[word], self._value_set())
        raise SelectorError(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")

    def _one_value(self) -> str:
        return "" if self._peek() in (_END, ",") else self._identifier()

    def _value_set(self) -> set[str]:
        if (opening := self._take()) != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        values: set[str] = set()
        while True:
            # Nothing between two separators is the empty value: `()` holds one.
            values.add(self._take() if self._at_identifier() else "")
            separator = self._take()
            if separator == ")":
                return values
            if separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or ')'")

    def _identifier(self) -> str:
        if not self._at_identifier():
            raise SelectorError(f"found '{self._peek()}', expected: identifier")
        return self._take()

    def _starts_requirement(self) -> bool:
        return self._peek() == "!" or self._at_identifier()

    def _at_identifier(self) -> bool:
        token = self._peek()
        return token != _END and token not in _SYMBOLS

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        if token != _END:
            self._at += 1
        return token
