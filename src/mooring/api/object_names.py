"""What may be written as a name, a label key or a label value.

Each check returns what is wrong in Kubernetes' own words, empty when nothing is. Which check applies
to which kind is a property of the kind and is decided elsewhere.
"""

import re
from functools import lru_cache
from typing import Final

__all__ = [
    "check_dns1035_label",
    "check_dns1123_label",
    "check_dns1123_subdomain",
    "check_label_value",
    "check_path_segment",
    "check_qualified_name",
]

MAX_LABEL: Final = 63
"""One part of a DNS name (RFC 1035, 2.3.4); Kubernetes' label keys and values borrow the number."""

MAX_SUBDOMAIN: Final = 253
"""A whole DNS name: 255 octets on the wire less the first length and the root (RFC 1035, 2.3.4)."""

#: How many label keys are remembered; a cluster uses some dozens. None that is too long to be one is.
REMEMBERED: Final = 1024

#: Beyond this, what a text consists of is not looked at: it is too long, and that is all there is to say.
MAX_JUDGED: Final = 4096

_DNS1123_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN: Final = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_DNS1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED_PART})?"

# The texts above are shown to users, so they stay as Kubernetes writes them.
_IS_DNS1123_LABEL: Final = re.compile(_DNS1123_LABEL)
_IS_DNS1123_SUBDOMAIN: Final = re.compile(_DNS1123_SUBDOMAIN)
_IS_DNS1035_LABEL: Final = re.compile(_DNS1035_LABEL)
_IS_QUALIFIED_PART: Final = re.compile(_QUALIFIED_PART)
_IS_LABEL_VALUE: Final = re.compile(_LABEL_VALUE)


def check_dns1123_label(name: str) -> list[str]:
    """Namespaces and parts of names: lower case, digits, dashes."""
    problems = _length_problems(name, MAX_LABEL, "characters")
    if len(name) > MAX_JUDGED or _IS_DNS1123_LABEL.fullmatch(name):
        return problems
    if _IS_DNS1123_SUBDOMAIN.fullmatch(name):
        return [*problems, "must not contain dots"]
    rule = _must_match(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character",
        _DNS1123_LABEL,
        examples=("my-name", "123-abc"),
    )
    return [*problems, rule]


def check_dns1123_subdomain(name: str) -> list[str]:
    """Names of most objects: DNS labels joined by dots."""
    return _subdomain_problems(name, unit="characters")


def check_dns1035_label(name: str) -> list[str]:
    """Services: a DNS label that starts with a letter."""
    problems = _length_problems(name, MAX_LABEL, "characters")
    if len(name) > MAX_JUDGED or _IS_DNS1035_LABEL.fullmatch(name):
        return problems
    rule = _must_match(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character",
        _DNS1035_LABEL,
        examples=("my-name", "abc-123"),
    )
    return [*problems, rule]


def check_path_segment(name: str) -> list[str]:
    """RBAC objects: anything that survives as one segment of a URL."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{stray}'" for stray in ("/", "%") if stray in name]


def check_qualified_name(key: str) -> list[str]:
    """Label and annotation keys, finalizers: a name with an optional `example.com/` before it."""
    return list(_remembered(key) if len(key) <= MAX_LABEL + MAX_SUBDOMAIN + 1 else _qualified_name_problems(key))


def _qualified_name_problems(key: str) -> tuple[str, ...]:
    match key.split("/", 2):
        case [name]:
            return tuple(_name_part_problems(name))
        case ["", name]:
            return ("prefix part must be non-empty", *_name_part_problems(name))
        case [prefix, name]:
            problems = _subdomain_problems(prefix, unit="bytes")
            return (*(f"prefix part {why}" for why in problems), *_name_part_problems(name))
        case _:
            return (
                f"a valid label key {_name_part_rule()} with an optional DNS subdomain prefix "
                "and '/' (e.g. 'example.com/MyName')",
            )


# The same few keys are on thousands of objects.
_remembered: Final = lru_cache(maxsize=REMEMBERED)(_qualified_name_problems)


def check_label_value(value: str) -> list[str]:
    """Label values: empty, or like the name part of a key."""
    problems = _length_problems(value, MAX_LABEL, "bytes")
    if len(value) > MAX_JUDGED or _IS_LABEL_VALUE.fullmatch(value):
        return problems
    rule = _must_match(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character",
        _LABEL_VALUE,
        examples=("MyValue", "my_value", "12345"),
    )
    return [*problems, rule]


def _subdomain_problems(name: str, *, unit: str) -> list[str]:
    problems = _length_problems(name, MAX_SUBDOMAIN, unit)
    if len(name) > MAX_JUDGED or _IS_DNS1123_SUBDOMAIN.fullmatch(name):
        return problems
    rule = _must_match(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character",
        _DNS1123_SUBDOMAIN,
        examples=("example.com",),
    )
    return [*problems, rule]


def _name_part_problems(name: str) -> list[str]:
    if not name:
        return ["name part must be non-empty", f"name part {_name_part_rule()}"]
    problems = [f"name part {why}" for why in _length_problems(name, MAX_LABEL, "bytes")]
    if len(name) > MAX_JUDGED or _IS_QUALIFIED_PART.fullmatch(name):
        return problems
    return [*problems, f"name part {_name_part_rule()}"]


def _name_part_rule() -> str:
    return _must_match(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character",
        _QUALIFIED_PART,
        examples=("MyName", "my.name", "123-abc"),
    )


def _length_problems(text: str, limit: int, unit: str) -> list[str]:
    # Kubernetes says "characters" of object names and "bytes" of labels; allowed text is ASCII.
    return [f"must be no more than {limit} {unit}"] if len(text) > limit else []


def _must_match(rule: str, expression: str, *, examples: tuple[str, ...]) -> str:
    # The odd comma before "or" is Kubernetes' own; people search for the whole text.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{expression}')"
