"""Quantities: exact amounts, canonical forms, and cheap rejection."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import quantity
from mooring.api.quantity import QuantityError

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
SUFFIXES = st.sampled_from([*DECIMAL, *BINARY]) | st.integers(-30, 60).map(lambda power: f"e{power}")


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Any amount the grammar allows, most of them far from canonical."""
    sign = draw(st.sampled_from(["", "", "+", "-"]))
    whole = draw(st.from_regex(r"[0-9]{1,20}", fullmatch=True))
    fraction = draw(st.just("") | st.from_regex(r"\.[0-9]{0,12}", fullmatch=True))
    return f"{sign}{whole}{fraction}{draw(SUFFIXES)}"


@pytest.mark.parametrize(
    ("written", "want"),
    [
        pytest.param("1000", "1k", id="thousands get a suffix"),
        pytest.param("1024", "1024", id="a plain number never becomes binary"),
        pytest.param("1000m", "1", id="milli folds into units"),
        pytest.param("1500M", "1500M", id="no fraction of a larger suffix"),
        pytest.param("1.5G", "1500M", id="a fraction moves to a smaller suffix"),
        pytest.param("12.50M", "12500k", id="trailing zero of a fraction"),
        pytest.param("0.1", "100m", id="tenth"),
        pytest.param("1100Ki", "1100Ki", id="binary without a larger exact suffix"),
        pytest.param("1024Ki", "1Mi", id="binary folds by 1024"),
        pytest.param("1Ki", "1Ki", id="the least binary amount"),
        pytest.param("1.5Gi", "1536Mi", id="binary fraction"),
        pytest.param("0.5Ki", "512", id="small binary turns decimal"),
        pytest.param("1000Ki", "1000Ki", id="binary keeps its family"),
        pytest.param("0.1Gi", "107374182400m", id="binary that is not whole turns decimal"),
        pytest.param("8Ei", "9223372036854775807", id="binary is capped at int64"),
        pytest.param("-9Ei", "-9223372036854775807", id="binary is capped below too"),
        pytest.param("12e6", "12e6", id="exponents stay exponents"),
        pytest.param("1e20", "100e18", id="exponents are multiples of three"),
        pytest.param("15e2", "1500", id="exponent zero is not written"),
        pytest.param("1e-3", "1e-3", id="negative exponent"),
        pytest.param("1E3", "1e3", id="capital exponent"),
        pytest.param("1e+3", "1e3", id="signed exponent"),
        pytest.param("1E", "1E", id="E alone is exa"),
        pytest.param("1000E", "1000E", id="beyond the largest suffix"),
        pytest.param("0.1n", "1n", id="finer than nano rounds up"),
        pytest.param("-0.1n", "-1n", id="finer than nano rounds away from zero"),
        pytest.param("+1", "1", id="plus sign"),
        pytest.param("5.", "5", id="point without fraction"),
        pytest.param(".5", "500m", id="fraction without whole"),
        pytest.param("001Gi", "1Gi", id="leading zeros"),
        pytest.param("-0", "0", id="minus nothing"),
        pytest.param("0Gi", "0", id="zero has no suffix"),
        pytest.param(5, "5", id="JSON integer"),
        pytest.param(0.5, "500m", id="JSON fraction"),
        pytest.param(1e22, "10e21", id="JSON number with exponent"),
    ],
)
def test_canonical(written: str | float, want: str) -> None:
    assert quantity.canonical(written) == want


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("", id="empty"),
        pytest.param("K", id="suffix alone"),
        pytest.param(".", id="point alone"),
        pytest.param("+", id="sign alone"),
        pytest.param("1K", id="capital K"),
        pytest.param("1ki", id="small ki"),
        pytest.param("1mi", id="small mi"),
        pytest.param("1i", id="i alone"),
        pytest.param("1e", id="exponent without digits"),
        pytest.param("1e1.5", id="exponent with fraction"),
        pytest.param("1e3Ki", id="exponent and suffix"),
        pytest.param("1 Gi", id="space inside"),
        pytest.param("1Gi\n", id="line end"),
        pytest.param("1_000", id="underscore"),
        pytest.param("١", id="digits of another script"),
        pytest.param("--1", id="two signs"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1e999999999", id="huge exponent"),
        pytest.param("1e" + "9" * 200, id="long exponent"),
        pytest.param("9" * 101, id="too many digits"),
        pytest.param("9" * 100_000, id="very long text"),
        pytest.param(10**5000, id="integer too long to print"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(float("-inf"), id="infinity"),
        pytest.param(True, id="boolean"),
    ],
)
def test_refused(written: str | float) -> None:
    for reading in (quantity.parse, quantity.canonical, quantity.to_bytes, quantity.to_milli):
        with pytest.raises(QuantityError) as refusal:
            reading(written)
        assert len(str(refusal.value)) < 300


def test_a_refusal_names_the_value() -> None:
    with pytest.raises(QuantityError, match='quantity "10GB" is not an amount'):
        quantity.parse("10GB")


def test_a_boolean_is_refused_even_after_the_numbers_it_equals() -> None:
    assert quantity.to_bytes(1) == quantity.to_bytes(1.0) == 1
    with pytest.raises(QuantityError):
        quantity.to_bytes(True)


def test_small_exponents_round_up_without_cost() -> None:
    assert quantity.parse("1e-999999999") == quantity.parse("1n")
    assert quantity.parse("0e999999999") == 0


@pytest.mark.parametrize(
    ("written", "units", "milli"),
    [
        pytest.param("10Gi", 10 * 2**30, 10 * 2**30 * 1000, id="whole"),
        pytest.param("1500m", 2, 1500, id="units round up"),
        pytest.param("1n", 1, 1, id="the least amount is still something"),
        pytest.param("-1500m", -2, -1500, id="negative rounds away from zero"),
        pytest.param("0.1", 1, 100, id="cpu"),
        pytest.param("800E", 800 * 10**18, 800 * 10**21, id="beyond 64 bits"),
        pytest.param(2, 2, 2000, id="JSON integer"),
        pytest.param(0.25, 1, 250, id="JSON fraction"),
        pytest.param("0", 0, 0, id="nothing"),
    ],
)
def test_whole_and_milli_units(written: str | float, units: int, milli: int) -> None:
    assert quantity.to_bytes(written) == units
    assert quantity.to_milli(written) == milli


def test_amounts_compare_across_families() -> None:
    ordered = ["-1", "0", "1n", "999m", "1", "1k", "1Ki", "1e6", "1Mi", "7Ei", "800E"]
    amounts = [quantity.parse(text) for text in ordered]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) == len(amounts)
    assert quantity.parse("1Gi") == quantity.parse("1073741824") == quantity.parse("1048576Ki")


@given(spellings())
def test_canonical_keeps_the_value(written: str) -> None:
    assert quantity.parse(quantity.canonical(written)) == quantity.parse(written)


@given(spellings())
def test_canonical_is_idempotent(written: str) -> None:
    once = quantity.canonical(written)
    assert quantity.canonical(once) == once


@given(
    st.integers(-(10**12), 10**12),  # with Mi just below where binary amounts are capped
    st.integers(0, 6),
    st.sampled_from([*DECIMAL.items()]).map(lambda row: (row[0], Fraction(10) ** row[1]))
    | st.sampled_from([("Ki", Fraction(2**10)), ("Mi", Fraction(2**20))]),
)
def test_parse_agrees_with_fractions(digits: int, places: int, suffix: tuple[str, Fraction]) -> None:
    spelled, factor = suffix
    sign, padded = ("-" if digits < 0 else ""), str(abs(digits)).rjust(places + 1, "0")
    text = f"{sign}{padded[: len(padded) - places]}.{padded[len(padded) - places :]}{spelled}"
    exact = Fraction(digits, 10**places) * factor * 10**9
    away_from_zero = -(-exact.numerator // exact.denominator) if exact >= 0 else exact.__floor__()
    assert quantity.parse(text) == away_from_zero
