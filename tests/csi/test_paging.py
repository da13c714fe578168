"""Pages of a list that changes under the reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.contract import Code, DriverError, DriverVolume
from mooring.csi.paging import page

IDS = st.sets(st.text(min_size=1, max_size=4), max_size=12)


def volumes(ids: set[str]) -> list[DriverVolume]:
    return [DriverVolume(name) for name in sorted(ids)]


@given(before=IDS, after=IDS, most=st.integers(1, 5))
def test_what_stays_is_listed_once_whatever_comes_and_goes(before: set[str], after: set[str], most: int) -> None:
    entries, token = page(volumes(before), token="", most=most)
    listed = [entry.volume_id for entry in entries]
    while token:
        entries, token = page(volumes(after), token=token, most=most)
        listed += [entry.volume_id for entry in entries]
    assert len(listed) == len(set(listed))
    assert before & after <= set(listed)
    assert set(listed) <= before | after


def test_without_a_limit_everything_comes_at_once() -> None:
    assert page(volumes({"a", "b"}), token="", most=0) == (volumes({"a", "b"}), "")


@pytest.mark.parametrize(
    ("token", "most", "code"),
    [("invalid-token", 0, Code.ABORTED), ("", -1, Code.INVALID_ARGUMENT)],
    ids=["foreign token", "negative page"],
)
def test_what_cannot_be_followed(token: str, most: int, code: Code) -> None:
    with pytest.raises(DriverError) as caught:
        page(volumes({"a"}), token=token, most=most)
    assert caught.value.code is code
