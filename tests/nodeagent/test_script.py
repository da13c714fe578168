"""What pods may say about what they do."""

import pytest

from builders import a_pod
from mooring.nodeagent.script import BadScript, Script, script


def test_a_pod_that_says_nothing_runs_for_ever() -> None:
    assert script(a_pod(annotations={"example.com/note": "5s"})) == Script()


def test_every_annotation_is_read() -> None:
    said = {
        "mooring.dev/start-after": "5s",
        "mooring.dev/ready-after": "1m30s",
        "mooring.dev/run-for": "2h",
        "mooring.dev/exit-code": "3",
        "mooring.dev/stop-after": "500ms",
    }
    assert script(a_pod(annotations=said)) == Script(5.0, 90.0, 7200.0, 3, 0.5)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        pytest.param("run-for", "soon", "invalid duration 'soon'", id="not a duration"),
        pytest.param("start-after", "", "invalid duration ''", id="an empty duration"),
        pytest.param("exit-code", "-1", "'-1' is not an exit code", id="a negative code"),
        pytest.param("exit-code", "256", "'256' is not an exit code", id="a code no process has"),
    ],
)
def test_what_cannot_be_followed_is_named(key: str, value: str, why: str) -> None:
    with pytest.raises(BadScript, match=rf"^annotation mooring\.dev/{key}: {why}"):
        script(a_pod(annotations={f"mooring.dev/{key}": value}))
