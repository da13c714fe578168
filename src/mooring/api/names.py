"""Validation of object names, label keys and label values.

Each check returns kube-apiserver's messages, none if the text is valid. Which check applies to a kind is decided by the
kind's rules.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

#: Length of one part of a DNS name (RFC 1035, 2.3.4), also of label keys and values.
MAX_LABEL: Final = 63
#: Length of a DNS name: 255 octets on the wire less the first length and the root (RFC 1035, 2.3.4).
MAX_SUBDOMAIN: Final = 253
#: Cached label keys, without those that are too long; a cluster uses some dozens.
CACHE_SIZE: Final = 1024

#: Characters of longer texts are not checked: that they are too long is the only message.
MAX_CHECKED_LENGTH: Final = 4096


class _Format(NamedTuple):
    """A form of names, and kube-apiserver's message for other texts."""

    pattern: re.Pattern[str]
    max_length: int
    message: str

    def problems(self, text: str, unit: str) -> list[str]:
        """`unit` is "characters" for object names and "bytes" for labels in the messages; valid text is ASCII."""
        problems = [f"must be no more than {self.max_length} {unit}"] if len(text) > self.max_length else []
        if len(text) <= MAX_CHECKED_LENGTH and not self.pattern.fullmatch(text):
            problems.append(self.message)
        return problems


def _format(expression: str, max_length: int, rule: str, *examples: str) -> _Format:
    # The comma before "or" is kube-apiserver's.
    shown = " or ".join(f"'{example}', " for example in examples)
    ends = "and must start and end with an alphanumeric character"
    message = f"{rule}, {ends} (e.g. {shown}regex used for validation is '{expression}')"
    return _Format(re.compile(expression), max_length, message)


_LABEL_PART: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_DNS1123_LABEL: Final = _format(
    _LABEL_PART, MAX_LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
    "my-name", "123-abc",
)  # fmt: skip
_DNS1123_SUBDOMAIN: Final = _format(
    rf"{_LABEL_PART}(\.{_LABEL_PART})*", MAX_SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
    "example.com",
)  # fmt: skip
_CASELESS_SUBDOMAIN: Final = _format(
    _DNS1123_SUBDOMAIN.pattern.pattern, MAX_SUBDOMAIN,
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.'",
    "Example.com",
)  # fmt: skip
_QUALIFIED_PART: Final = _format(
    _NAME_PART, MAX_LABEL,
    "must consist of alphanumeric characters, '-', '_' or '.'",
    "MyName", "my.name", "123-abc",
)  # fmt: skip
_LABEL_VALUE: Final = _format(
    f"({_NAME_PART})?", MAX_LABEL,
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'",
    "MyValue", "my_value", "12345",
)  # fmt: skip


def check_caseless_subdomain(name: str) -> list[str]:
    """A subdomain in any case; the expression that kube-apiserver shows is that of lower case."""
    return _CASELESS_SUBDOMAIN.problems(name, "bytes") if _DNS1123_SUBDOMAIN.problems(name.lower(), "bytes") else []


def check_dns1123_label(name: str) -> list[str]:
    """Namespaces and parts of names: lower case, digits, dashes."""
    problems = _DNS1123_LABEL.problems(name, "characters")
    if _DNS1123_LABEL.message in problems and _DNS1123_SUBDOMAIN.pattern.fullmatch(name):
        problems[-1] = "must not contain dots"
    return problems


def check_dns1123_subdomain(name: str) -> list[str]:
    """Names of most objects: DNS labels joined by dots."""
    return _DNS1123_SUBDOMAIN.problems(name, "characters")


def check_path_segment(name: str) -> list[str]:
    """RBAC objects: anything that can be one element of a URL path."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in ("/", "%") if character in name]


def check_qualified_name(key: str) -> list[str]:
    """Label and annotation keys, finalizers: a name with an optional `example.com/` before it."""
    return list(_cached_problems(key) if len(key) <= MAX_LABEL + MAX_SUBDOMAIN + 1 else _qualified_name_problems(key))


def _qualified_name_problems(key: str) -> tuple[str, ...]:
    match key.split("/", 2):
        case [name]:
            return tuple(_name_part_problems(name))
        case ["", name]:
            return ("prefix part must be non-empty", *_name_part_problems(name))
        case [prefix, name]:
            problems = _DNS1123_SUBDOMAIN.problems(prefix, "bytes")
            return (*(f"prefix part {why}" for why in problems), *_name_part_problems(name))
        case _:
            return (
                f"a valid label key {_QUALIFIED_PART.message} with an optional DNS subdomain prefix "
                "and '/' (e.g. 'example.com/MyName')",
            )


_cached_problems: Final = lru_cache(maxsize=CACHE_SIZE)(_qualified_name_problems)


def _name_part_problems(name: str) -> list[str]:
    problems = [] if name else ["must be non-empty"]
    return [f"name part {why}" for why in (*problems, *_QUALIFIED_PART.problems(name, "bytes"))]


def check_label_value(value: str) -> list[str]:
    """Label values: empty, or like the name part of a key."""
    return _LABEL_VALUE.problems(value, "bytes")
