"""`mooring simulate` on files: what it prints, how it ends, and what it says to questions that make no sense."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from support.builders import Body, node_body, pod_body
from support.whatif.questions import local_set, nodes, pool, provisioned_class, stateful_set

WHAT_IF = Path(__file__).parents[3] / "docs" / "what-if"
SPREAD, PACK = str(WHAT_IF / "spread.yaml"), str(WHAT_IF / "pack.yaml")
STATE: list[Body] = [*nodes(2), *provisioned_class(), pool("n1", "2Gi"), pool("n2", "1Gi")]


def written(folder: Path, name: str, bodies: list[Body]) -> str:
    file = folder / name
    file.write_text(yaml.safe_dump_all(bodies))
    return str(file)


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


@pytest.fixture(autouse=True)
def logs_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own settings would outlast the test: they are for a process."""
    monkeypatch.setattr("mooring.cli.runtime.configure_logging", lambda _: None)


@pytest.fixture
def state(tmp_path: Path) -> str:
    return written(tmp_path, "state.yaml", STATE)


@pytest.fixture
def new(tmp_path: Path) -> str:
    return written(tmp_path, "new.yaml", [stateful_set(replicas=3)])


def test_text_output_has_verdict_placements_and_free_capacity(state: str, new: str) -> None:
    done = simulate("-f", state, "-f", new)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "All 3 pods are scheduled."
    assert "  POD            NODE   BEFORE   VOLUMES" in lines
    assert "  fast    kubernetes.io/hostname=n2   1       1Gi      0" in lines
    assert "  volumes provisioned: 3" in lines
    assert "\x1b" not in done.stdout


def test_what_stays_pending_ends_with_one_and_is_explained(state: str, new: str) -> None:
    done = simulate("-f", state, "-f", new, "--scale", "sts/db=5")
    assert done.exit_code == 1
    assert done.stdout.startswith("3 of 4 pods are scheduled; 1 pod stays pending and 1 pod is not created.\n")
    assert "  default/db-3: 0/2 nodes are available: 2 node(s) did not have enough free storage." in done.stdout
    assert "        VolumeBinding: node(s) did not have enough free storage" in done.stdout
    assert "  statefulset/default/db wants 5 pods and has 4: " in done.stdout


def test_a_node_of_a_file_is_added_with_its_pool(tmp_path: Path, state: str, new: str) -> None:
    node = node_body(name="big")
    template = written(tmp_path, "node.yaml", [node, pool("big", "9Gi")])
    done = simulate("-f", state, "-f", new, "--scale", "sts/db=5", "--add-node", f"{template}=1", "-o", "json")
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    assert shown["difference"]["nodesAdded"] == ["big-new-1"]
    assert "big-new-1" in {each["node"] for each in shown["placements"]}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_it_all_and_always_the_same(state: str, new: str, output: str) -> None:
    first, second = (simulate("-f", state, "-f", new, "-o", output).stdout for _ in range(2))
    assert first == second
    shown = json.loads(first) if output == "json" else yaml.safe_load(first)
    assert shown["ok"] is True
    assert {"verdict", "placements", "pending", "capacity", "difference", "seconds"} <= shown.keys()


def test_a_drain_that_a_local_volume_stops(tmp_path: Path) -> None:
    cluster = written(tmp_path, "local.yaml", [*nodes(2), *local_set("n1")])
    done = simulate("-f", cluster, "--drain", "n1")
    assert done.exit_code == 1
    assert "default/db-0: 0/2 nodes are available" in done.stdout
    assert "  pods moved: 1 (default/db-0: n1 → nowhere)" in done.stdout


def test_long_tables_are_cut_unless_all_is_asked_for(tmp_path: Path) -> None:
    pods = [pod_body(name=f"web-{number:02d}", uid=f"u{number}") for number in range(25)]
    cluster = written(tmp_path, "pods.yaml", [*nodes(2), *pods])
    assert "  and 5 more; -o wide shows all" in simulate("-f", cluster).stdout
    wide = simulate("-f", cluster, "-o", "wide").stdout
    assert "more; -o wide" not in wide
    assert all(f"default/web-{number:02d} " in wide for number in range(25))


def test_remaining_capacity_is_counted_and_alike_pods_grouped(tmp_path: Path, state: str) -> None:
    pods = [pod_body(name=f"huge-{number}", uid=f"u{number}", requests={"cpu": "99"}) for number in range(7)]
    done = simulate("-f", state, "-f", written(tmp_path, "huge.yaml", pods))
    assert "  as before in 2 segments\n" in done.stdout
    assert "default/huge-4 and 2 more (as before): 0/2 nodes are available: 2 Insufficient cpu." in done.stdout
    assert done.stdout.count("NodeResourcesFit: ") == 1


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(["--drain", "n9"], "Node n9 to drain not found.", id="no such node"),
        pytest.param(["--remove-zone", "z"], "Zone z has no nodes: existing zones: a, b.", id="no such zone"),
        pytest.param(
            ["--add-node", "n1"], "'n1' does not say which nodes to add: write TEMPLATE=COUNT.", id="no count"
        ),
        pytest.param(
            ["--add-node", "x=1"], "There is neither a node nor a file x to add nodes like.", id="no such template"
        ),
        pytest.param(["--scale", "sts/x=1"], "StatefulSet default/x to scale not found.", id="no such set"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(state: str, flags: list[str], want: str) -> None:
    done = simulate("-f", state, *flags)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"Error: {want}\n")


def test_a_template_file_has_one_node(tmp_path: Path, state: str) -> None:
    template = written(tmp_path, "none.yaml", [pool("n1", "1Gi")])
    done = simulate("-f", state, "--add-node", f"{template}=1")
    assert done.exit_code == 2
    assert "a file has to hold one Node, and it holds 0" in done.stderr


def test_objects_that_are_none_are_named_with_their_file(tmp_path: Path) -> None:
    wrong = written(tmp_path, "wrong.yaml", [{"apiVersion": "v1", "kind": "Pod"}])
    done = simulate("-f", wrong)
    assert done.exit_code == 2
    assert done.stderr == f"Error: {wrong}: Pod without a name.\n"


def test_what_takes_no_part_is_counted(tmp_path: Path, state: str) -> None:
    more = written(tmp_path, "more.yaml", [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}])
    assert "note: left out what takes no part: 1 Secret" in simulate("-f", state, "-f", more).stderr


def test_progress_is_shown_on_terminals_and_erased() -> None:
    script = (
        "from mooring.cli.runtime import ProgressLine\n"
        "class Late:\n"
        "    now = 0.0\n"
        "    def monotonic(self): Late.now += 0.6; return Late.now\n"
        "with ProgressLine(Late()) as shown:\n"
        "    for done in range(4): shown('simulating', done, 4)\n"
        "    shown('reading', 7, 0)\n"
    )
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "simulating [" in shown
    assert "reading 7" in shown, "the total is unknown"
    assert "0/4" not in shown, "not before a second has passed"
    assert shown.endswith("\r\x1b[K")


def test_a_process_says_nothing_but_its_answer(state: str, new: str) -> None:
    command = [sys.executable, "-m", "mooring", "simulate", "-f", state, "-f", new]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("All 3 pods are scheduled.\n")


def test_gates_are_taken_as_components_take_them(state: str, new: str) -> None:
    done = simulate("-f", state, "-f", new, "--feature-gates", "ProvisioningRollback=true")
    assert done.exit_code == 0
    refused = simulate("-f", state, "--feature-gates", "Nonsense=true")
    assert refused.exit_code == 2
    assert "unrecognized feature gate: Nonsense" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "code", "beginning"),
    [
        pytest.param(["--scale", "sts/logs=4", "--add-until-placed", "n2"], 0, "All pods run with 1 x n2", id="nodes"),
        pytest.param(["--scale", "sts/logs=4", "--add-until-placed", "n1"], 1, "No number of these", id="too small"),
        pytest.param(
            ["--scale", "sts/logs=4", "--node-group", "big=n2", "--node-group", "small=n1"],
            0,
            "All pods run with 1 node of big.\n\nnode groups:\n"
            "  NODE GROUP   TEMPLATE   NODES   SCHEDULED   PENDING\n"
            "  big          n2         1       1           0\n"
            "  small        n1         0       0           1\n",
            id="node groups",
        ),
        pytest.param(
            ["--scale", "sts/logs=4", "--node-group-label", "kubernetes.io/hostname"],
            0,
            "All pods run with 1 node of n2.",
            id="node groups by label",
        ),
        pytest.param(
            ["--scale", "sts/logs=4", "--node-group", "small=n1"], 1, "No node group helps.", id="group too small"
        ),
        pytest.param(["--node-group", "n1"], 2, "", id="no group name"),
        pytest.param(["--node-group-label", "none"], 2, "", id="no such label"),
        pytest.param(["--fill", "sts/logs", "--node-group", "big=n2"], 2, "", id="group and fill"),
        pytest.param(["--fill", "sts/logs"], 0, "3 more pods of statefulset/default/logs fit", id="pods"),
        pytest.param(
            ["--config", SPREAD, "--config", PACK], 0, "spread.yaml schedules 3 of 3 pods", id="configurations"
        ),
        pytest.param(["--config", PACK], 0, "All 3 pods are scheduled.", id="one configuration"),
        pytest.param(["--config", str(WHAT_IF / "logs.yaml")], 2, "", id="not a configuration"),
        pytest.param(["--fill", "sts/none"], 2, "", id="no such set"),
        pytest.param(["--add-until-placed", "n9"], 2, "", id="no such node"),
        pytest.param(["--fill", "sts/logs", "--add-until-placed", "n2"], 2, "", id="two questions"),
    ],
)
def test_planning_questions_have_verdict_and_exit_code(flags: list[str], code: int, beginning: str) -> None:
    files = ["-f", str(WHAT_IF / "cluster.yaml"), "-f", str(WHAT_IF / "logs.yaml")]
    done = CliRunner().invoke(main, ["simulate", *files, *flags])
    assert done.exit_code == code, done.output
    assert done.stdout.startswith(beginning)


@pytest.mark.req("C24.which-group")
def test_help_of_node_groups_is_a_document_keyed_by_group() -> None:
    files = ["-f", str(WHAT_IF / "cluster.yaml"), "-f", str(WHAT_IF / "logs.yaml")]
    flags = ["--scale", "sts/logs=4", "--node-group", "big=n2", "--node-group", "small=n1", "-o", "json"]
    shown = json.loads(CliRunner().invoke(main, ["simulate", *files, *flags]).stdout)
    assert (shown["ok"], shown["best"]) == (True, "big")
    big, small = shown["groups"]["big"], shown["groups"]["small"]
    assert (big["template"], big["count"], big["ok"], big["pending"]) == ("n2", 1, True, [])
    assert (small["count"], small["ok"], len(small["pending"])) == (0, False, 1)


def test_number_of_nodes_is_a_document_for_programs() -> None:
    files = ["-f", str(WHAT_IF / "cluster.yaml"), "-f", str(WHAT_IF / "logs.yaml")]
    flags = ["--scale", "sts/logs=4", "--add-until-placed", "n2", "-o", "json"]
    shown = json.loads(CliRunner().invoke(main, ["simulate", *files, *flags]).stdout)
    assert shown["nodes"] == [{"template": "n2", "count": 1}]
    assert shown["result"]["ok"] is True


CROWDED = ("-f", str(WHAT_IF / "cluster.yaml"), "-f", str(WHAT_IF / "crowded.yaml"))


def test_moves_let_a_pod_run() -> None:
    done = simulate(*CROWDED, "--rebalance-for", "default/reports", "-o", "json")
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    assert [each["pod"] for each in shown["moves"]] == ["default/web-a", "default/web-b"]
    assert shown["immovable"] == [
        {"pod": "default/db-0", "node": "n1", "reason": "no other node can use its volume disk-n1"}
    ]


def test_without_a_plan_the_limits_are_shown() -> None:
    done = simulate(*CROWDED, "--rebalance-for", "reports", "--max-moves", "1")
    assert done.exit_code == 1
    assert "  n1: more than 1 move would be needed" in done.stdout.splitlines()
    unknown = simulate(*CROWDED, "--rebalance-for", "none")
    assert (unknown.exit_code, "Pod default/none to rebalance for not found." in unknown.stderr) == (2, True)
    both = simulate(*CROWDED, "--rebalance-for", "reports", "--fill", "rs/web")
    assert (both.exit_code, "different questions" in both.stderr) == (2, True)
