"""Everything the scheduler and the PV controller can say is in the table: read off their source, so that a new text
without a row fails here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mooring
from mooring.explain.messages import find

SOURCE = Path(mooring.__file__).parent

#: Where texts for pods and claims are made.
REPORTING_MODULES = (
    *sorted(path.relative_to(SOURCE).as_posix() for path in (SOURCE / "scheduler" / "plugins").glob("*.py")),
    "scheduler/binding/binder.py",
    "scheduler/binding/progress.py",
    "scheduler/framework/interface.py",
    "scheduler/preemption/evaluator.py",
    "volumes/binding.py",
    "volumes/state.py",
    "pvcontroller/claim_sync.py",
    "pvcontroller/migration.py",
    "pvcontroller/volume_sync.py",
    "volumes/holds/policy.py",
)

#: Strings in these modules that are not shown to users, or that are parts of other texts.
INTERNAL_TEXTS = frozenset(
    {
        "rolling back",
        "{} {} may be about to use it",
        '"{}" is out of sync (not stored, assume: {})',
        '"{}" is out of sync (stored: {}, assume: {})',
        '"{}" is out of sync (version {} is already assumed otherwise)',
        "a change has a before or an after",
        "to be made for {}",
        "{} (missing required label)",
        "0/{} nodes are available: {}.",
        "{} {}",
        "{}: no matching NodeSelectorTerms",
        "due to incompatible volumeMode.",
    }
)

#: What is filled in where it is more than a name.
FILLED = {
    "waiting for {} {} to be scheduled": "waiting for pods a,b to be scheduled",
    'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{}" {}': (
        'Cannot bind PersistentVolume to requested PersistentVolumeClaim "x" due to incompatible volumeMode.'
    ),
    'Cannot bind PersistentVolume "{}" to requested PersistentVolumeClaim {}': (
        'Cannot bind PersistentVolume "x" to requested PersistentVolumeClaim due to incompatible volumeMode.'
    ),
}

#: Parts of a rolled back volume's event.
REASONS = "volumes/holds/policy.py"


def strings(path: str) -> Iterator[str]:
    """All strings of several words in a module but docstrings; `{}` stands for what is filled in."""
    tree = ast.parse((SOURCE / path).read_text())
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    # Names of tasks are not part of events.
    silent |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "name"}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent.update(id(part) for part in node.values)
            if id(node) in silent:
                continue
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def component_messages() -> list[tuple[str, str]]:
    return [
        (path, text)
        for path in REPORTING_MODULES
        for text in dict.fromkeys(strings(path))
        if " " in text.strip() and text not in INTERNAL_TEXTS
    ]


@pytest.mark.parametrize(("path", "text"), component_messages())
def test_every_component_message_has_a_row(path: str, text: str) -> None:
    spoken = FILLED.get(text, text.replace("{}", "x"))
    if path == REASONS:
        spoken = f"volume v is rolled back unused: {spoken}"
    assert find(spoken), f"{path} says {text!r}: give it a row in explain/messages"


def test_the_modules_are_those_that_speak() -> None:
    assert len(component_messages()) > 70
