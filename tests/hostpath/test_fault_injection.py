"""Failures on purpose: rules as they are written, and when they strike."""

from random import Random

import pytest

from mooring.csi.contract import Code, DriverError
from mooring.hostpath.fault_injection import BadRule, InjectedFailures, Rule, parse_rule

CALLS = ("CreateVolume", "DeleteVolume")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("CreateVolume=UNAVAILABLE", Rule("CreateVolume", Code.UNAVAILABLE)),
        ("CreateVolume=ABORTED,after,count=2", Rule("CreateVolume", Code.ABORTED, after=True, count=2)),
        ("DeleteVolume=INTERNAL,before,skip=1", Rule("DeleteVolume", Code.INTERNAL, skip=1)),
        ("DeleteVolume=INTERNAL,probability=0.25", Rule("DeleteVolume", Code.INTERNAL, probability=0.25)),
    ],
)
def test_rules_are_read(text: str, rule: Rule) -> None:
    assert parse_rule(text, calls=CALLS) == rule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Create=ABORTED", "unknown call 'Create'; choose from CreateVolume, DeleteVolume"),
        ("CreateVolume", "'' is not a gRPC code"),
        ("CreateVolume=OK", "'OK' is not a gRPC code"),
        ("CreateVolume=ABORTED,count=many", "invalid value 'many' for count"),
        ("CreateVolume=ABORTED,count=-1", "invalid value '-1' for count"),
        ("CreateVolume=ABORTED,probability=2", "invalid value '2' for probability"),
        ("CreateVolume=ABORTED,later", "'later' must be one of before, after"),
        ("CreateVolume=ABORTED,after=1", "'after=1' must be one of before, after"),
    ],
)
def test_bad_rules_say_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(BadRule) as caught:
        parse_rule(text, calls=CALLS)
    assert complaint in str(caught.value)


async def outcomes(rule: str, times: int, *, call: str = "CreateVolume") -> tuple[str, int]:
    """One letter per call, and how many of them were really done."""
    failures = InjectedFailures([parse_rule(rule, calls=CALLS)], chance=Random(7))
    done = 0

    async def do() -> str:
        nonlocal done
        done += 1
        return "."

    letters = ""
    for _ in range(times):
        try:
            letters += await failures(call, None, do)
        except DriverError as error:
            letters += "x" if error.code is Code.UNAVAILABLE else "?"
    return letters, done


@pytest.mark.parametrize(
    ("rule", "letters", "done"),
    [
        ("CreateVolume=UNAVAILABLE", "xxxx", 0),
        ("CreateVolume=UNAVAILABLE,after", "xxxx", 4),
        ("CreateVolume=UNAVAILABLE,count=2", "xx..", 2),
        ("CreateVolume=UNAVAILABLE,after,count=1", "x...", 4),
        ("CreateVolume=UNAVAILABLE,skip=2,count=1", "..x.", 3),
        ("CreateVolume=UNAVAILABLE,probability=0", "....", 4),
        ("DeleteVolume=UNAVAILABLE", "....", 4),
    ],
)
async def test_rules_strike_as_written(rule: str, letters: str, done: int) -> None:
    assert await outcomes(rule, 4) == (letters, done)


async def test_chance_comes_from_outside() -> None:
    rule = "CreateVolume=UNAVAILABLE,probability=0.5"
    letters, _ = await outcomes(rule, 40)
    assert letters == (await outcomes(rule, 40))[0]
    assert 10 < letters.count("x") < 30
