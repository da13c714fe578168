"""Every command that can cost data or end a pod comes from `data_loss`, and begins with what it costs.

Three looks: at the module itself, at all strings of the product, and at all that fixtures and tables make it say.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import mooring
from mooring.api import well_known
from mooring.cli.main import main
from mooring.explain.messages import MESSAGES
from mooring.explain.remedies import data_loss
from mooring.explain.remedies.data_loss import BEGINS
from support.builders import a_volume

SOURCES = Path(mooring.__file__).parent
FIXTURES = Path(__file__).parents[1] / "fixtures"

#: What makes a text a destructive command, in any message of the product.
DESTRUCTIVE = re.compile(
    r"kubectl\b[^;,]*\b(?:delete|drain)\b"
    r"|\bpatch pv\b"
    r"|\bout-of-service="
    r"|--force\b|--grace-period"
    r"|\bremove (?:its |the )?(?:spec\.)?(?:claimRef|finalizer)"
    r"|\bdelete (?:the|this|these|that|it|your)\b(?! \w+ \w+ed\b)"
    r"|\bdelete (?:pod|pvc|pv|node|claim)\b",
    re.IGNORECASE,
)
#: Every destructive command that any message suggests, without its names.
COMMANDS = {
    "delete pvc",
    "delete pod",
    "delete pv",
    "patch pv: claimRef",
    "patch pv: claimRef/uid",
    "patch pv: finalizers",
    "taint out-of-service, delete node",
    "delete the claim",
    "delete the other pod",
    "delete the pod",
    "delete these pods",
    "delete the volume at the driver",
    "remove claimRef",
}
RETAINED = a_volume(name="v", reclaim="Retain")
DELETED = a_volume(name="v", reclaim="Delete", finalizers=[well_known.EXTERNAL_PROVISIONER])
TEXTS = {
    "delete pvc": data_loss.delete_claim("ns/c", RETAINED, ["ns/p"]),
    "delete pvc, Delete": data_loss.delete_claim("ns/c", DELETED),
    "delete pvc, no volume": data_loss.delete_claim("ns/c"),
    "delete pvc, unused": data_loss.delete_claim("ns/c", RETAINED, unused=True),
    "delete pod": data_loss.delete_pods(["ns/p", "ns/q"]),
    "delete pod, again": data_loss.reschedule("ns/p"),
    "delete pv": data_loss.delete_volume(RETAINED),
    "delete pv, Delete": data_loss.delete_volume(DELETED),
    "patch pv: claimRef": data_loss.clear_claim_ref("v"),
    "patch pv: claimRef/uid": data_loss.clear_claim_uid("v", "ns/c"),
    "patch pv: finalizers": data_loss.remove_finalizers("v"),
    "taint out-of-service, delete node": data_loss.give_up_node("n"),
    "delete the claim": data_loss.ANY_CLAIM,
    "delete the claim, unused": data_loss.UNUSED_CLAIMS,
    "delete the claim, restored": data_loss.RESTORE_CLAIM,
    "delete the other pod": data_loss.ANY_POD,
    "delete the pod": data_loss.THIS_POD,
    "delete these pods": data_loss.THESE_PODS,
    "delete the volume at the driver": data_loss.DRIVER_VOLUME,
    "remove claimRef": data_loss.ANY_CLAIM_REF,
    "taint out-of-service, delete node, in general": data_loss.ANY_NODE,
}


def test_all_commands_are_listed() -> None:
    assert {name.partition(", ")[0] for name in TEXTS} | {"taint out-of-service, delete node"} == COMMANDS | {
        "taint out-of-service"
    }
    tried = {name for name, thing in vars(data_loss).items() if inspect.isfunction(thing)}
    helpers = {"warned", "is_warned", "sentence", "claim_loss"}
    used = {"delete_claim", "delete_pods", "reschedule", "delete_volume", "clear_claim_ref", "clear_claim_uid"}
    assert tried == helpers | used | {"remove_finalizers", "give_up_node"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_loss_and_precondition_come_before_the_command(text: str) -> None:
    assert text.startswith(BEGINS)
    command = DESTRUCTIVE.search(text)
    assert command is not None
    loss, precondition, rest = text.partition("; only ")
    assert precondition
    assert len(loss) > len(BEGINS)
    assert rest.find(": ") < command.start()


def _strings() -> Iterator[tuple[str, str]]:
    """Every string of the product that is no docstring, with where it is; parts of one f-string together."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.name == "data_loss.py":
            continue
        tree = ast.parse(path.read_text())
        documentation = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                text = node.value
            else:
                continue
            if id(node) not in documentation:
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", text


#: Strings that describe what a component does or did, and suggest nothing.
NOT_SUGGESTED = frozenset(
    {
        "Drain a node, as kubectl drain --ignore-daemonsets; PodDisruptionBudgets may block evictions. Repeatable.",
        "its node is there: only the node's driver can delete it",
        "remove finalizer",
        "remove the finalizer",
        "delete the volume",
        "delete Pod {} in StatefulSet {}",
        # Steps of `mooring orphans --plan`, which prints what is lost before them.
        "delete Pod {}, which was on {}",
        ", and remove its finalizer {}",
        # Objects of which a component makes new ones: no data is lost with them.
        "let its publisher delete it, or if the publisher no longer runs: kubectl -n {} delete csistoragecapacity {}",
        "start the provisioner of {}; if the driver was uninstalled, delete the objects: "
        "kubectl delete csistoragecapacities -A -l {}={}",
        "run one capacity publisher per driver and segment, with the same identity after an upgrade; delete the "
        "objects of the other one",
        "start provisioner {}, or delete the class if the driver was uninstalled",
        "check its pods and logs; if it was uninstalled: kubectl -n {} delete lease {}",
    }
)


def test_no_other_module_spells_a_destructive_command() -> None:
    spelled = [
        f"{place}: {text}" for place, text in _strings() if DESTRUCTIVE.search(text) and text not in NOT_SUGGESTED
    ]
    assert spelled == []


def test_messages_with_a_destructive_command_begin_it_with_the_loss() -> None:
    found = 0
    for message in MESSAGES:
        for sentence in re.split(r"(?<=\.) |(?<=: )(?=loses )", message.action):
            if DESTRUCTIVE.search(sentence):
                found += 1
                assert data_loss.is_warned(sentence), message.action
    assert found >= 10


@pytest.mark.parametrize("dump", sorted(FIXTURES.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_commands_print_begins_with_the_loss(dump: Path) -> None:
    for command in (["explain", "-A"], ["orphans"]):
        done = CliRunner().invoke(main, [*command, "-f", str(dump)])
        _check(done.stdout)
    for line in dump.with_suffix(".txt").read_text().splitlines():
        _check(line)


def _check(printed: str) -> None:
    for line in printed.splitlines():
        hint = line.strip().removeprefix("- ")
        if DESTRUCTIVE.search(hint) and line.lstrip().startswith("- "):
            before = hint[: DESTRUCTIVE.search(hint).start()]  # type: ignore[union-attr]
            assert BEGINS in before.lower(), line
            assert hint.lower().startswith(BEGINS) or ". Loses " in before or ": loses " in before, line
