"""What a `--controllers` list means."""

import pytest

from mooring.cluster.controllers import CONTROLLERS, UnknownController, chosen

DEFAULT = [one.name for one in CONTROLLERS if one.default]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(["*"], DEFAULT, id="all that are on by default"),
        pytest.param(
            ["*", "-statefulset-controller"],
            [name for name in DEFAULT if name != "statefulset-controller"],
            id="all but one",
        ),
        pytest.param(["statefulset-controller"], ["statefulset-controller"], id="one alone"),
        pytest.param(
            ["*", "namespace-controller"],
            [one.name for one in CONTROLLERS if one.default or one.name == "namespace-controller"],
            id="one more",
        ),
        pytest.param([], [], id="none"),
    ],
)
def test_lists(wanted: list[str], expected: list[str]) -> None:
    assert [one.name for one in chosen(wanted)] == expected


def test_a_name_nobody_knows_is_an_error_that_names_the_others() -> None:
    with pytest.raises(UnknownController, match=r"'-stateful' is not in the list of known controllers: .*statefulset-"):
        chosen(["*", "-stateful"])


def test_names_and_sources_are_told_apart() -> None:
    for field in ("name", "source"):
        values = [getattr(one, field) for one in CONTROLLERS]
        assert len(values) == len(set(values))
