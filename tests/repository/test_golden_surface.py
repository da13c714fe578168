"""What Mooring stores or exposes to other programs does not change by accident.

`golden_surface.json` lists it: keys on objects, names of objects, metrics, event reasons, variables, paths, files, SQL,
JSON keys, flags with their defaults, exit codes. A failure is not about the code's own names, which may change freely,
but about names in clusters, data folders, dashboards and scripts.
"""

import json
from typing import Any

import pytest
from tools.public_surface import COMMAND, GOLDEN, surface

ADVICE = f"""
What is gone or changed here is still in clusters, data folders, dashboards or scripts: keep reading the old form (or
keep the flag as a hidden alias), test that, and give the change a line in CHANGELOG.md. Then write the file with

    {COMMAND}
"""


def entries(topic: Any) -> set[str]:  # noqa: ANN401
    """One line for each entry of a topic."""
    if isinstance(topic, dict):
        return {
            f"{name}: {value}".rstrip(": ")
            for name, below in topic.items()
            for value in (entries(below) if isinstance(below, dict) and below else {below or ""})
        }
    return set(topic)


def difference(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    lines = []
    for topic in sorted(recorded.keys() | found.keys()):
        before, after = entries(recorded.get(topic, ())), entries(found.get(topic, ()))
        signs = {entry: "-" if entry in before else "+" for entry in before ^ after}
        if signs:
            lines += [f"{topic}:", *(f"  {signs[entry]} {entry}" for entry in sorted(signs))]
    return lines


def test_public_surface_is_as_recorded() -> None:
    changed = difference(json.loads(GOLDEN.read_text()), surface())
    if changed:
        pytest.fail("\n".join(["- recorded, + found", *changed, ADVICE]), pytrace=False)


def test_every_topic_lists_something() -> None:
    """A collector without results would detect nothing."""
    assert [topic for topic, found in json.loads(GOLDEN.read_text()).items() if not found] == []


@pytest.mark.parametrize(
    ("recorded", "found", "lines"),
    [
        pytest.param({"metrics": ["a"]}, {"metrics": ["a"]}, [], id="unchanged"),
        pytest.param({"metrics": ["a"]}, {"metrics": ["b"]}, ["metrics:", "  - a", "  + b"], id="renamed"),
        pytest.param({"files": ["a"]}, {}, ["files:", "  - a"], id="topic removed"),
        pytest.param(
            {"commands": {"up": {"--a": "flag", "--b": "text, default 1"}}},
            {"commands": {"up": {"--a": "flag", "--b": "text, default 2"}}},
            ["commands:", "  - up: --b: text, default 1", "  + up: --b: text, default 2"],
            id="default changed",
        ),
    ],
)
def test_differences_are_reported(recorded: dict[str, Any], found: dict[str, Any], lines: list[str]) -> None:
    assert difference(recorded, found) == lines
