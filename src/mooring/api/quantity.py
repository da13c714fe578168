"""Kubernetes quantities, exactly: `10Gi`, `250m`, `1e3`.

A `Quantity` is a number of nano units as an int, the finest unit of the API, so that comparing and adding are exact
and cheap. Parsing is cached by text.
"""

import enum
import re
from functools import lru_cache
from typing import Final, NamedTuple, NewType

#: An exact amount, counted in nano units.
Quantity = NewType("Quantity", int)

NANOS_PER_UNIT: Final = 10**9
NANOS_PER_MILLI: Final = 10**6

#: No canonical form of an accepted value is longer; bounds the cost of converting digits.
MAX_TEXT: Final = 256
#: Far beyond any sum of 64-bit amounts; rejects `1e999999999` before it becomes a number of that length.
MAX_WHOLE_DIGITS: Final = 100
TOO_LARGE: Final = f"has more than {MAX_WHOLE_DIGITS} digits before the point"

#: Kubernetes caps binary amounts (`8Ei` and up) at the largest 64-bit integer, and only those.
BINARY_CAP: Final = 2**63 - 1
#: Distinct texts per cache: a cluster uses few different amounts, but clients can send new ones.
CACHE_SIZE: Final = 8192

_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_LARGEST_DECIMAL_POWER: Final = max(_DECIMAL.values())
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)


class QuantityError(ValueError):
    """The text is not a quantity, or it is too large."""

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        super().__init__(f'quantity "{shown}" {why}')


class _Family(enum.Enum):
    """The suffixes of an amount; its canonical form has the same."""

    DECIMAL = "k, M, G"
    BINARY = "Ki, Mi, Gi"
    EXPONENT = "e3, e6, e9"


class _Written(NamedTuple):
    nanos: int
    family: _Family


# typed: 1, 1.0 and True are one dictionary key, but True is not an amount.
@lru_cache(maxsize=CACHE_SIZE, typed=True)
def parse(amount: str | float) -> Quantity:
    """The value of a string or JSON number; anything finer than 1n rounds away from zero."""
    return Quantity(_read(_as_text(amount)).nanos)


@lru_cache(maxsize=CACHE_SIZE, typed=True)
def to_bytes(amount: str | float) -> int:
    """The amount in whole units, rounded away from zero as Kubernetes rounds sizes."""
    return _divided_up(parse(amount), NANOS_PER_UNIT)


@lru_cache(maxsize=CACHE_SIZE, typed=True)
def to_milli(amount: str | float) -> int:
    """The amount in thousandths (the unit of CPU), rounded away from zero."""
    return _divided_up(parse(amount), NANOS_PER_MILLI)


@lru_cache(maxsize=CACHE_SIZE, typed=True)
def canonical(amount: str | float) -> str:
    """The canonical form: no fraction, the largest exact suffix of its family."""
    return _spelled(*_read(_as_text(amount)))


def spelled_like(milli: int, example: str | float) -> str:
    """An amount in milli units, with the suffixes of another amount."""
    return _spelled(milli * NANOS_PER_MILLI, _read(_as_text(example)).family)


def _spelled(nanos: int, family: _Family) -> str:
    if nanos == 0:
        return "0"
    if family is _Family.BINARY:
        units, rest = divmod(nanos, NANOS_PER_UNIT)
        if rest == 0 and abs(units) >= 1024:
            return _binary(units)
        # Too small or fractional for binary suffixes.
        family = _Family.DECIMAL
    return _decimal(nanos, family)


def _binary(units: int) -> str:
    power = 0
    while units % 1024 == 0:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _decimal(nanos: int, family: _Family) -> str:
    amount, power = nanos, -9
    while amount % 1000 == 0 and (family is _Family.EXPONENT or power < _LARGEST_DECIMAL_POWER):
        amount //= 1000
        power += 3
    if family is _Family.EXPONENT and power != 0:
        return f"{amount}e{power}"
    return f"{amount}{_DECIMAL_SUFFIX[power]}"


def _as_text(amount: str | float) -> str:
    if isinstance(amount, str):
        return amount
    if isinstance(amount, bool):
        raise QuantityError(str(amount).lower(), "is a boolean, not an amount")
    if isinstance(amount, int) and abs(amount) >= 10**MAX_WHOLE_DIGITS:
        # Python does not print very long ints.
        raise QuantityError("…", TOO_LARGE)
    return repr(amount)


def _read(text: str) -> _Written:
    found = _GRAMMAR.fullmatch(text) if len(text) <= MAX_TEXT else None
    if found is None:
        raise QuantityError(
            text,
            "is not an amount: write digits, optionally with a sign and a fraction, and at most one "
            "suffix of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3",
        )
    fraction = found["fraction"] or ""
    digits = int(found["whole"] + fraction)
    suffix = found["suffix"] or ""
    power = 9 - len(fraction)
    if suffix in _BINARY_SUFFIXES[1:]:
        family = _Family.BINARY
        digits <<= 10 * _BINARY_SUFFIXES.index(suffix)
    elif found["exponent"]:
        family = _Family.EXPONENT
        power += int(found["exponent"])
    else:
        family = _Family.DECIMAL
        power += _DECIMAL[suffix]
    nanos = _scaled(digits, power, text)
    if family is _Family.BINARY:
        nanos = min(nanos, BINARY_CAP * NANOS_PER_UNIT)
    return _Written(-nanos if found["sign"] == "-" else nanos, family)


def _scaled(digits: int, power: int, text: str) -> int:
    """`digits` x 10^`power`, rounded up, without ever building a power larger than the bounds."""
    if digits == 0:
        return 0
    length = len(str(digits)) + power
    if length > MAX_WHOLE_DIGITS + 9:
        raise QuantityError(text, TOO_LARGE)
    if length <= 0:
        return 1
    scale: int = 10 ** abs(power)
    return digits * scale if power >= 0 else _divided_up(digits, scale)


def _divided_up(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit
