"""Field selectors, as in `fieldSelector=spec.nodeName=n1,status.phase!=Failed`.

Only equality and its opposite exist. Which fields a kind offers, and how to read one, is the caller's:
`matches` asks it for each path. Not here: label selectors, whose values need no escapes.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

__all__ = ["EVERYTHING", "FieldSelector", "FieldSelectorError", "FieldTerm", "parse"]

# Backslash takes the next character out of play, also when a comma or an equals sign.
_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)+", re.DOTALL)
_OPERATOR: Final = re.compile(r"!=|==|=")
_ESCAPED: Final = re.compile(r"\\(.?)|([,=])", re.DOTALL)
_SPECIAL: Final = re.compile(r"[\\,=]")


class FieldSelectorError(ValueError):
    """The selector cannot be understood; the text says where."""


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
        """Whether all terms hold for the object whose fields `get` reads, absent ones as ""."""
        return all((get(term.path) == term.value) is (term.operator == "=") for term in self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING: Final = FieldSelector()


def parse(text: str) -> FieldSelector:
    """The selector a `fieldSelector` query parameter spells; the empty text selects everything."""
    return FieldSelector(tuple(_term(part, text) for part in _TERM.findall(text)))


def _term(part: str, text: str) -> FieldTerm:
    found = _OPERATOR.search(part)
    if found is None:
        raise FieldSelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    operator = "!=" if found[0] == "!=" else "="
    return FieldTerm(part[: found.start()], operator, _unescaped(part[found.end() :]))


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(_literal, value)


def _literal(found: re.Match[str]) -> str:
    escaped, bare = found.groups()
    if bare is not None:
        raise FieldSelectorError(f"invalid field selector: unescaped character in value: {bare}")
    if escaped not in ("\\", ",", "="):
        raise FieldSelectorError(f"invalid field selector: invalid escape sequence: {found[0]}")
    return str(escaped)
