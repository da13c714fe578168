"""`mooring explain` on files: what it prints, how it ends, and what it says to files that make no sense."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.commands.explain import near_names
from mooring.cli.main import main
from mooring.volumes.matching import Criterion
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.builders.groups import member_body, pod_group_body
from support.builders.stateful_sets import set_body

CLUSTER: list[Body] = [
    class_body(),
    node_body(name="n1"),
    node_body(name="n2", unschedulable=True),
    claim_body(name="data"),
    volume_body(name="v1", node="n1"),
    pod_body(name="web", claims=["data"]),
    pod_body(name="huge", requests={"cpu": "100"}),
]


def as_list(bodies: list[Body]) -> Body:
    return {"apiVersion": "v1", "kind": "List", "items": bodies}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump(as_list(CLUSTER)))
    return file


def explain(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)], input=stdin)


def complaint(done: Result, code: int = 2) -> str:
    """The one line of it."""
    assert done.exit_code == code
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def test_json_has_every_node_and_what_the_claims_get(dump: Path) -> None:
    done = explain("pod/web", "-n", "default", "-f", dump, "-o", "json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["pod"] == "default/web"
    assert told["prefilter"] == []
    volumes = [{"claim": "default/data", "state": "bind", "volume": "v1", "storageClass": "local"}]
    assert told["nodes"]["n1"] == {"fits": True, "reasons": [], "volumes": volumes}
    assert not told["nodes"]["n2"]["fits"]
    assert told["nodes"]["n2"]["reasons"] == [
        {
            "plugin": "NodeUnschedulable",
            "reason": "node(s) were unschedulable",
            "detail": "it is cordoned: spec.unschedulable is true",
            "code": "NodeUnschedulable",
        },
        {
            "plugin": "VolumeBinding",
            "reason": "node(s) didn't find available persistent volumes to bind",
            "code": "NoVolume",
        },
    ]


def test_people_get_the_verdict_first_and_no_colours_in_a_file(dump: Path) -> None:
    done = explain("pod/web", "-f", dump)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "default/web would fit on 1 of 2 nodes."
    assert "\x1b" not in done.stdout


def test_a_pod_that_fits_nowhere_ends_with_one(dump: Path) -> None:
    done = explain("po/huge", "-f", dump)
    assert done.exit_code == 1
    assert done.stdout.startswith("default/huge would not fit: 0/2 nodes are available: ")


@pytest.mark.parametrize("how", ["documents", "json", "folder", "stdin", "files"])
def test_objects_are_read_however_they_were_saved(tmp_path: Path, how: str) -> None:
    stdin = None
    match how:
        case "documents":
            (tmp_path / "all.yaml").write_text("---\n" + yaml.safe_dump_all(CLUSTER) + "---\n")
            sources = [tmp_path / "all.yaml"]
        case "json":
            (tmp_path / "all.json").write_text(json.dumps(as_list(CLUSTER)))
            sources = [tmp_path / "all.json"]
        case "folder":
            for number, body in enumerate(CLUSTER):
                (tmp_path / f"{number}.yml").write_text(yaml.safe_dump(body))
            (tmp_path / "notes.txt").write_text("not for reading: [")
            sources = [tmp_path]
        case "stdin":
            stdin = yaml.safe_dump(as_list(CLUSTER))
            sources = [Path("-")]
        case _:
            (tmp_path / "a.json").write_text(json.dumps(as_list(CLUSTER[:4])))
            (tmp_path / "b.yaml").write_text(yaml.safe_dump(as_list(CLUSTER[4:])))
            sources = [tmp_path / "a.json", tmp_path / "b.yaml"]
    options = [part for source in sources for part in ("-f", str(source))]
    done = explain("pod/web", *options, stdin=stdin)
    assert done.exit_code == 0, done.output


def test_unquoted_dates_are_text(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-02T03:04:05Z}\nspec: {}\n"
    )
    assert explain("pod/p", "-f", tmp_path / "pod.yaml").exit_code == 1


def test_what_is_left_out_is_noted_beside_the_answer(tmp_path: Path, dump: Path) -> None:
    (tmp_path / "more.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    done = explain("pod/web", "-f", dump, "-f", tmp_path / "more.yaml", "-o", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["pod"] == "default/web"
    assert done.stderr == "note: left out what no decision looks at: 1 Service\n"


def test_a_pod_that_is_not_there_is_answered_with_those_that_are(dump: Path) -> None:
    line = complaint(explain("pod/missing", "-n", "prod", "-f", dump), code=4)
    assert line == "Error: There is no pod prod/missing; there is default/huge, default/web."


@pytest.mark.parametrize(
    ("key", "there", "expected"),
    [
        pytest.param("default/db3", ["default/aa", "default/db-3"], ["default/db-3", "default/aa"], id="similar"),
        pytest.param("shop/db-3", ["default/db-3", "shop/aa"], ["default/db-3", "shop/aa"], id="another namespace"),
        pytest.param("shop/x", ["default/aa", "shop/bb"], ["shop/bb", "default/aa"], id="nothing similar"),
        pytest.param("node-11", ["abc", "node-1"], ["node-1", "abc"], id="without namespaces"),
    ],
)
def test_near_names_come_first(key: str, there: list[str], expected: list[str]) -> None:
    assert near_names(key, there) == expected


@pytest.mark.parametrize("what", ["sts/web", "statefulset.apps/web", "StatefulSets/web"])
def test_workload_is_explained_by_its_pods(tmp_path: Path, what: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
    pod = pod_body(name="web-0", requests={"cpu": "100"}, owners=[owner])
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump(as_list([*CLUSTER, set_body(replicas=2), pod])))
    done = explain(what, "-f", tmp_path / "dump.yaml")
    assert done.exit_code == 1
    assert done.stdout.startswith("StatefulSet default/web has 0 of 2 pods ready. default/web-0 would not fit: 0/2")
    data = json.loads(explain(what, "-f", tmp_path / "dump.yaml", "-o", "json").stdout)
    assert (data["workload"], data["explained"]["pod"]) == ("statefulset/web", "default/web-0")


def test_missing_workload_is_answered_with_a_near_name(tmp_path: Path) -> None:
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump(as_list([*CLUSTER, set_body()])))
    line = complaint(explain("sts/wep", "-f", tmp_path / "dump.yaml"), code=4)
    assert line == "Error: There is no StatefulSet default/wep; there is default/web."


def test_an_input_without_pods_says_so(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(node_body()))
    assert "nor any other" in complaint(explain("pod/web", "-f", tmp_path / "nodes.yaml"), code=4)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        pytest.param(["web"], "write pod/NAME", id="no kind"),
        pytest.param(["pod/"], "write pod/NAME", id="no name"),
        pytest.param(["pod/a/b"], "write pod/NAME", id="too many names"),
        pytest.param(["service/data"], "Kind 'service' cannot be explained", id="another kind"),
        pytest.param(["-A", "pod/web"], "leave out the name", id="one pod of everything"),
        pytest.param(["-A", "-n", "prod"], "and -n.", id="one namespace of all"),
        pytest.param(["pod/web", "--message", "x y"], "one of them", id="a pod and a message"),
    ],
)
def test_other_questions_are_refused(dump: Path, what: list[str], message: str) -> None:
    assert message in complaint(explain(*what, "-f", dump))


@pytest.mark.parametrize("what", [["pvc/data"], ["pvc", "data"], ["persistentvolumeclaims/data"]], ids=" ".join)
def test_claim_is_explained_with_its_pending_pod(dump: Path, what: list[str]) -> None:
    done = explain(*what, "-f", dump)
    assert done.exit_code == 0
    waits = "default/data waits for default/web to be scheduled"
    assert done.stdout.splitlines()[0] == f"{waits}: default/web would fit on 1 of 2 nodes."


@pytest.mark.parametrize("what", [["pv/disk"], ["pv", "disk"], ["persistentvolumes/disk"]], ids=" ".join)
def test_volume_is_explained_with_matching_claims(tmp_path: Path, what: list[str]) -> None:
    claims = [claim_body(name="a"), *(claim_body(name=f"large-{each:02}", size="99Gi") for each in range(12))]
    dump = tmp_path / "dump.yaml"
    dump.write_text(
        yaml.safe_dump_all([node_body(name="n1"), node_body(name="n2"), volume_body(name="disk", node="n1"), *claims])
    )
    done = explain(*what, "-f", dump)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "disk is available and matches default/a.",
        "",
        "10Gi, class local, ReadWriteOnce, Filesystem, reclaim policy Retain",
        "reached from 1 of 2 nodes: n1",
        "",
        "claims that wait:",
        "  default/a: it does",
    ]
    assert lines[7] == "  default/large-00: not it: it is smaller than requested (10Gi, 99Gi requested)"
    assert lines[-1] == "  and 3 more do not take it; in all: 12 SIZE"
    told = json.loads(explain(*what, "-f", dump, "-o", "json").stdout)
    assert (told["state"], told["failed"], told["reachedFrom"]) == ("Available", {"SIZE": 12}, ["n1"])


def test_bound_volume_is_explained_with_its_pods(tmp_path: Path) -> None:
    reference = {"namespace": "default", "name": "data", "uid": "u"}
    bodies = [
        volume_body(name="disk", claim_ref=reference, phase="Bound", node="gone"),
        claim_body(name="data", uid="u", volume="disk", bound=True, phase="Bound"),
        pod_body(name="web", claims=["data"]),
        node_body(name="n1"),
    ]
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump_all(bodies))
    done = explain("pv/disk", "-f", dump)
    assert done.exit_code == 1
    assert "pods that use default/data:\n  default/web: Pending, without a node\n" in done.stdout
    assert "reached from 0 of 1 nodes\n" in done.stdout
    assert "what would help:\n  - bring gone itself back" in done.stdout
    assert complaint(explain("pv/nope", "-f", dump), code=4) == "Error: There is no volume nope; there is disk."


def test_node_is_explained_with_resources_and_pending_pods(dump: Path) -> None:
    done = explain("node/n2", "-f", dump)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == ("n2 accepts no pods: it is cordoned; 2 of 2 pending pods do not fit there.")
    assert "  cpu: 0 of 4 requested" in done.stdout
    assert "default/huge: node(s) were unschedulable" in done.stdout
    assert "Insufficient cpu (100 requested, 4 of 4 free)" in done.stdout
    assert "kubectl uncordon n2" in done.stdout


def test_everything_that_waits_is_a_line_each(dump: Path) -> None:
    done = explain("-A", "-f", dump)
    assert done.exit_code == 1
    first, _, *lines = done.stdout.splitlines()
    assert first == "1 of 3 that wait are stuck."
    assert [line.split(":")[0] for line in lines] == [
        "stuck pod/huge -n default",
        "waits pod/web -n default",
        "waits pvc/data -n default",
    ]


def test_nothing_waits_in_another_namespace(dump: Path) -> None:
    done = explain("-n", "prod", "-f", dump)
    assert (done.exit_code, done.stdout) == (0, "Nothing waits.\n")


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("what", ["pod/huge", "pvc/data", "node/n1", "-A"])
def test_programs_get_plain_data(dump: Path, what: str, output: str) -> None:
    done = explain(what, "-f", dump, "-o", output)
    told = yaml.safe_load(done.stdout)
    assert told["lines" if what == "-A" else "verdict"]


def test_wide_names_every_node(tmp_path: Path) -> None:
    nodes = [node_body(name=f"n{number}", unschedulable=True) for number in range(1, 10)]
    (tmp_path / "all.json").write_text(json.dumps(as_list([*nodes, pod_body(name="web")])))
    assert "and 4 more" in explain("pod/web", "-f", tmp_path / "all.json").stdout
    wide = explain("pod/web", "-f", tmp_path / "all.json", "-o", "wide").stdout
    assert "n1, n2, n3, n4, n5, n6, n7, n8, n9: do not fit" in wide


@pytest.mark.parametrize("how", [["1 node(s) had volume node affinity conflict"], ["--message", "Too many pods"]])
def test_a_message_is_looked_up_without_a_cluster(how: list[str]) -> None:
    done = explain(*how)
    assert done.exit_code == 0
    assert "what to do: " in done.stdout
    assert "see `mooring docs troubleshooting` (troubleshooting#" in done.stdout


def test_unknown_message_is_not_found() -> None:
    assert "`mooring docs troubleshooting`" in complaint(explain("it does not work"), code=4)


def test_colour_is_used_on_terminals_and_on_request(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["explain", "pod/web", "-f", str(dump)]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in CliRunner().invoke(main, arguments, color=True).stdout
    assert "\x1b" not in CliRunner().invoke(main, arguments).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in CliRunner().invoke(main, arguments, color=True).stdout


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("bad.yaml", "a: [1, 2", "bad.yaml: not YAML: ", id="broken YAML"),
        pytest.param("bad.yaml", "a: !!python/none x", "bad.yaml: not YAML: ", id="an unknown tag"),
        pytest.param("bad.json", '{"a": ', "bad.json: not JSON: ", id="broken JSON"),
        pytest.param("bad.yaml", "just words", "expected a mapping", id="no object"),
        pytest.param("bad.yaml", "kind: Pod\n", "kind and apiVersion are missing", id="no version"),
        pytest.param("bad.yaml", "\x00\x01\x02", "bad.yaml: not YAML: ", id="not even text"),
        pytest.param("bad.yaml", "[" * 5000, "nested more than 200 deep", id="very deep YAML"),
        pytest.param("bad.json", '{"a":' * 5000, "bad.json: not JSON", id="very deep JSON"),
        pytest.param(
            "bad.yaml",
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: 3}}",
            "bad.yaml: Pod p: Expected `array`, got `int` - at `$.spec.containers`",
            id="a field of the wrong type",
        ),
    ],
)
def test_files_that_make_no_sense_are_one_sentence(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    assert message in complaint(explain("pod/web", "-f", tmp_path / name))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "missing.yaml: No such file" in complaint(explain("pod/web", "-f", tmp_path / "missing.yaml"))


def test_a_folder_without_objects_is_named(tmp_path: Path) -> None:
    assert "holds no .yaml, .yml, .json files" in complaint(explain("pod/web", "-f", tmp_path))


def test_malformed_quantities_are_noted(tmp_path: Path) -> None:
    odd = [*CLUSTER, volume_body(name="odd", size="a lot"), pod_body(name="other", node="n1", requests={"cpu": "?"})]
    (tmp_path / "all.json").write_text(json.dumps(as_list(odd)))
    done = explain("pod/web", "-f", tmp_path / "all.json")
    assert done.exit_code == 0
    assert "note: PersistentVolume odd: " in done.stderr
    assert "note: Pod default/other: " in done.stderr


def test_the_command_itself_ends_as_it_says(dump: Path) -> None:
    """Once as people run it: no traceback, and the exit code reaches the shell."""
    command = [sys.executable, "-m", "mooring", "explain", "pod/huge", "-f", str(dump)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_every_criterion_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
    assert {criterion.name for criterion in Criterion if f"`{criterion.name}`" not in page} == set()


def test_every_state_and_problem_is_documented() -> None:
    """Read off the source, so that a new one fails here."""
    root = Path(__file__).parents[3]
    source = "\n".join(path.read_text() for path in (root / "src" / "mooring" / "explain").glob("*.py"))
    states = set(re.findall(r'(?:ClaimReport\(\s*claim\.key|report_of\(claim),\s*"(\w+)"', source)) | {
        "Lost",
        "VolumeMissing",
    }
    states |= set(re.findall(r'(?:VolumeReport\(\s*self\._name,|self\._report\()\s*"(\w+)"', source)) | {
        "Available",
        "Pending",
    }
    problems = set(re.findall(r'^([A-Z_]+): Final = "\1"$', source, re.MULTILINE))
    assert len(states) > 15
    assert "NO_TOPOLOGY" in problems
    page = (root / "docs" / "explain.md").read_text()
    assert {name for name in states | problems if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a: &a [*a]", "contains itself", id="a value that contains itself"),
        pytest.param("[" * 50_000, "nested more than 200 deep", id="nested without end"),
        pytest.param('{"a":' * 500 + "1" + "}" * 500, "nested more than 200 deep", id="JSON nested without end"),
        pytest.param(
            "a0: &a0 {k: x}\n"
            + "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)),
            "aliases make the document too large",
            id="merge keys that multiply",
        ),
    ],
)
def test_a_file_that_costs_more_than_it_weighs_is_refused_in_a_sentence(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    done = explain("pod/p", "-f", tmp_path / "x.yaml")
    assert done.exit_code != 0
    assert why in done.output
    assert len(done.output.splitlines()) == 1


def test_group_is_explained_by_its_name_and_its_short_name(tmp_path: Path) -> None:
    bodies = [*CLUSTER, pod_group_body(min_count=2), member_body(name="g-0")]
    file = tmp_path / "groups.yaml"
    file.write_text(yaml.safe_dump(as_list(bodies)))
    for what in (["podgroup/g"], ["pg/g"], ["podgroup", "g"]):
        done = CliRunner().invoke(main, ["explain", *what, "-f", str(file)])
        assert done.exit_code == 1
        assert done.stdout.startswith("default/g waits for members: 1 of 2 members exist.")
    done = CliRunner().invoke(main, ["explain", "pg/g", "-o", "json", "-f", str(file)])
    assert json.loads(done.stdout)["state"] == "WaitingForMembers"
    done = CliRunner().invoke(main, ["explain", "podgroup/h", "-f", str(file)])
    assert done.exit_code == 4
    assert "There is no PodGroup default/h; there is default/g." in done.stderr
