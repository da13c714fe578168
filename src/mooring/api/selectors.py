"""Label selectors, as query strings and as objects, field selectors, and indexes of labels and of label selectors.

Both forms of label selectors become one frozen, hashable value with sorted requirements, so that equal selectors are
equal.
"""

import enum
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from mooring.api import names
from mooring.api.views.meta import LabelSelectorView
from mooring.multimap import Multimap

# A backslash escapes the next character.
_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)+", re.DOTALL)
_OPERATOR: Final = re.compile(r"!=|==|=")
_ESCAPED: Final = re.compile(r"\\(.?)|([,=])", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\,=]")


class FieldSelectorError(ValueError):
    """The field selector is invalid."""


class FieldTerm(NamedTuple):
    """One comparison. `operator` is `=` or `!=`; `==` is read as `=`."""

    path: str
    operator: str
    value: str

    def __str__(self) -> str:
        escaped = _SPECIAL.sub(lambda found: "\\" + found[0], self.value)
        return f"{self.path}{self.operator}{escaped}"


class FieldSelector(msgspec.Struct, frozen=True, gc=False):
    """Terms that must all hold, in the order written."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether all terms hold; `get` reads a field of the object, absent ones as ""."""
        return all((get(term.path) == term.value) is (term.operator == "=") for term in self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """The selector of a `fieldSelector` query parameter; the empty text selects everything."""
    return FieldSelector(tuple(_term(part, text) for part in _TERM.findall(text)))


def _term(part: str, text: str) -> FieldTerm:
    found = _OPERATOR.search(part)
    if found is None:
        raise FieldSelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    operator = "!=" if found[0] == "!=" else "="
    return FieldTerm(part[: found.start()], operator, _ESCAPED.sub(_literal, part[found.end() :]))


def _literal(found: re.Match[str]) -> str:
    escaped, bare = found.groups()
    if bare is not None:
        raise FieldSelectorError(f"invalid field selector: unescaped character in value: {bare}")
    if escaped not in ("\\", ",", "="):
        raise FieldSelectorError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return str(escaped)


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_END: Final = 2**63


class SelectorError(ValueError):
    """The label or node selector is invalid."""


class Operator(enum.StrEnum):
    """Comparison of a requirement, with the API's value."""

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
        """The requirement with sorted values. Raises SelectorError with all problems."""
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
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN if len(self.values) != 1:
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
            case _:
                return f"{self.key}{_SYMBOL_OF[self.operator]}{self.values[0]}"


class LabelSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements that must all hold, in the order of `parse_label_selector` and `label_selector_from_view`."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False

    @property
    def words(self) -> int:
        """Keys and values in it: what caches of selectors are bounded by."""
        return sum(1 + len(one.values) for one in self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.never and all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        # A selector of nothing has no query form; no server accepts this text, while "" would select all.
        return "<nothing>" if self.never else ",".join(map(str, self.requirements))


ALL_LABELS: Final = LabelSelector()
NOTHING: Final = LabelSelector(never=True)


def parse_label_selector(text: str) -> LabelSelector:
    """The selector of a `labelSelector` query parameter; the empty text selects everything."""
    return _selector(_Parser(text).requirements())


def label_selector_from_view(view: LabelSelectorView | None) -> LabelSelector:
    """The selector in an object's field: absent it selects nothing, empty it selects everything."""
    if view is None:
        return NOTHING
    requirements = [Requirement.checked(key, Operator.IN, (v,)) for key, v in view.match_labels.items()]
    for expression in view.match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(Requirement.checked(expression.key, operator, expression.values))
    return _selector(requirements)


#: Gt and Lt are for query strings and node selectors only.
_OBJECT_OPERATORS: Final[Mapping[str, Operator]] = {
    str(operator): operator for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(set(requirements))))


def _requirement_problems(key: str, operator: Operator, values: tuple[str, ...]) -> list[str]:
    problems = [f'key: Invalid value: "{key}": {why}' for why in names.check_qualified_name(key)]
    if why := _wrong_values(operator, values):
        quoted = ", ".join(f'"{value}"' for value in values)
        problems.append(f"values: Invalid value: [{quoted}]: {why}")
    problems.extend(
        f'values[{index}][{key}]: Invalid value: "{value}": {why}'
        for index, value in enumerate(values)
        for why in names.check_label_value(value)
    )
    return problems


def _wrong_values(operator: Operator, values: tuple[str, ...]) -> str:
    """Why the values are invalid for the operator; "" if they are valid."""
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            return "for 'in', 'notin' operators, values set can't be empty"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            return "values set must be empty for exists and does not exist"
        case Operator.GT | Operator.LT if len(values) != 1:
            return "for 'Gt', 'Lt' operators, exactly one value is required"
        case Operator.GT | Operator.LT if _as_int64(values[0]) is None:
            return "for 'Gt', 'Lt' operators, the value must be an integer"
        case _:
            return ""


def _as_int64(text: str | None) -> int | None:
    """The number as Go parses it; Python's int() also accepts spaces, underscores and other digits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_END <= number < _INT64_END else None


_END: Final = ""
#: Tokens that are not identifiers.
_SYMBOLS: Final = frozenset({_END, "==", "!=", "=", "!", "(", ")", ",", ">", "<"})
_TOKEN: Final = re.compile(r"==|!=|[=!(),><]|[^ \t\r\n=!(),><]+")
_SYMBOL_OF: Final = {Operator.IN: "=", Operator.NOT_IN: "!=", Operator.GT: ">", Operator.LT: "<"}
_ONE_VALUE: Final = {symbol: operator for operator, symbol in _SYMBOL_OF.items()} | {"==": Operator.IN}
_VALUE_SET: Final[Mapping[str, Operator]] = {"in": Operator.IN, "notin": Operator.NOT_IN}


class _Parser:
    """Recursive descent over the tokens of one selector. `in` and `notin` are keywords only as operators: `in in (in)`
    is a selector."""

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
            if (separator := self._take()) == _END:
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
            value = "" if self._peek() in (_END, ",") else self._identifier()
            return Requirement.checked(key, _ONE_VALUE[word], (value,))
        if word in _VALUE_SET:
            return Requirement.checked(key, _VALUE_SET[word], self._value_set())
        raise SelectorError(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")

    def _value_set(self) -> set[str]:
        if (opening := self._take()) != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        values: set[str] = set()
        while True:
            # Nothing between two separators is the empty value: `()` contains one.
            values.add(self._take() if self._at_identifier() else "")
            if (separator := self._take()) == ")":
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
        return self._peek() not in _SYMBOLS

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        if token != _END:
            self._at += 1
        return token


K = TypeVar("K", bound=Hashable)

_Label = tuple[str, str]


class LabelIndex(Generic[K]):
    """Keys of objects by labels that the objects have, or that a selector of theirs requires."""

    def __init__(self) -> None:
        self._keys: Multimap[_Label, K] = Multimap()

    def put(self, key: K, labels: Iterable[_Label]) -> None:
        for label in labels:
            self._keys.add(label, key)

    def remove(self, key: K, labels: Iterable[_Label]) -> None:
        for label in labels:
            self._keys.discard(label, key)

    def having(self, labels: Iterable[_Label]) -> Iterator[K]:
        return (key for label in labels for key in self._keys.get(label, ()))

    def rarest(self, requirements: Iterable[Requirement]) -> tuple[_Label, ...]:
        """Labels of which an object must have exactly one to fulfil the requirements: those with the fewest keys, as
        `tier=backend` would have most of them. Empty if no requirement names a value."""
        named = [tuple((one.key, value) for value in one.values) for one in requirements if one.operator is Operator.IN]
        return min(named, key=lambda labels: sum(len(self._keys.get(label, ())) for label in labels), default=())


class SelectorIndex(Generic[K]):
    """Keys of objects with a label selector, indexed by a label that all matching objects have.

    Selectors of affinity terms and disruption budgets nearly always require a value, such as `app=db`: the index skips
    those that require other values. It yields candidates only; the caller still evaluates the selector.
    """

    def __init__(self) -> None:
        self._by_label: LabelIndex[K] = LabelIndex()
        #: Keys whose selector requires no particular value.
        self._unlabelled: dict[K, None] = {}
        self._labels: dict[K, tuple[_Label, ...]] = {}

    def put(self, key: K, selector: LabelSelector) -> None:
        """Add a new key; not if its selector matches nothing."""
        if selector.never:
            return
        labels = self._by_label.rarest(selector.requirements)
        if labels:
            self._labels[key] = labels
            self._by_label.put(key, labels)
        else:
            self._unlabelled[key] = None

    def remove(self, key: K) -> None:
        """Does nothing for an unknown key."""
        self._unlabelled.pop(key, None)
        self._by_label.remove(key, self._labels.pop(key, ()))

    def candidates(self, labels: Mapping[str, str]) -> Iterator[K]:
        """The keys whose selectors could match these labels, each once."""
        yield from self._unlabelled
        yield from self._by_label.having(labels.items())
