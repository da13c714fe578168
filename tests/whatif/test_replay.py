"""A cluster's changes, recorded and replayed: with the same load, with more, and with another configuration."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.api import kinds
from mooring.api.patches.contract import MergePatch
from mooring.cli.main import main
from mooring.client.contract import Client
from mooring.whatif.inventory import BadQuestion
from mooring.whatif.question import WhatIfQuestion, prepared
from mooring.whatif.recorder import CannotRecord, ChangeRecorder, RecordedCounts
from mooring.whatif.recording import FORMAT, read_recording
from mooring.whatif.replay import Replay, ReplayResult, different_pods
from mooring.whatif.run import SimulatedControlPlane, _load, replayed
from mooring.whatif.virtual_time import VirtualClock, run_in_virtual_time
from support.builders import Body, claim_body, csi_node_body, node_body, pod_body
from support.whatif.questions import DRIVER, FAST, inventory, nodes, pool, provisioned_class

Happening = Callable[[Client, VirtualClock], Awaitable[None]]
MIB = 1 << 20
PACK = Path(__file__).parents[2] / "docs" / "what-if" / "pack.yaml"
MARK = "correct-horse-battery-staple"


def recorded(
    *documents: Body, happening: Happening, max_bytes: int = MIB, lines: list[bytes] | None = None
) -> tuple[list[bytes], RecordedCounts]:
    """The lines of a recording of a simulated cluster in which this happens."""
    lines = [] if lines is None else lines
    begin = prepared(WhatIfQuestion(inventory(documents)))

    async def run(clock: VirtualClock) -> RecordedCounts:
        rng = random.Random(0)
        plane = SimulatedControlPlane(begin, clock=clock, rng=rng)
        await _load(plane, begin.inventory, lambda *_: None)
        async with plane.running():
            recorder = ChangeRecorder(plane.client, lines.append, clock=clock, rng=rng, max_bytes=max_bytes)
            stop = asyncio.Event()
            recording = asyncio.ensure_future(recorder.record(stop, 3600.0))
            await clock.sleep(1.0)
            await happening(plane.client, clock)
            await clock.sleep(30.0)
            stop.set()
            return await recording

    counts = run_in_virtual_time(run)
    return lines, counts


def replay(lines: list[bytes], *, load_factor: int = 1) -> ReplayResult:
    source = Replay(read_recording(lines), load_factor)
    return source.result(replayed(WhatIfQuestion(source.inventory()), source))


def new_pod(name: str, **more: object) -> Body:
    body = pod_body(name=name, **more)  # type: ignore[arg-type]  # fields of the builder
    return {field: value for field, value in body.items() if field != "status"}


def new_claim(name: str, size: str = "1Gi") -> Body:
    body = claim_body(name=name, storage_class=FAST, size=size)
    return {field: value for field, value in body.items() if field != "status"}


async def three_pods(client: Client, clock: VirtualClock) -> None:
    """The third has to wait until the first is deleted."""
    for number in range(3):
        await client.create(kinds.CLAIM, new_claim(f"data-{number}"), namespace="default")
        body = new_pod(f"web-{number}", requests={"cpu": "2"}, claims=[f"data-{number}"])
        await client.create(kinds.POD, body, namespace="default")
        await clock.sleep(10.0)
    await client.delete(kinds.POD, "web-0", namespace="default")


ONE_NODE = [
    *nodes(1),
    *provisioned_class(),
    csi_node_body(name="n1", topology={DRIVER: ["kubernetes.io/hostname"]}),
    pool("n1", "9Gi"),
]


def test_same_load_gives_the_same_placements() -> None:
    lines, counts = recorded(*ONE_NODE, happening=three_pods)
    found = replay(lines)
    assert counts.reason == ""
    assert counts.changes > 6
    assert found.ok
    assert [(each.pod, each.replayed.node) for each in found.pods] == [
        (f"default/web-{number}", "n1") for number in range(3)
    ]
    assert not [*different_pods(found)]
    assert found.verdict == "In the recording 3 of 3 pods got a node, in the replay 3 of 3."
    waited = found.pods[2]
    assert waited.recorded is not None
    assert waited.recorded.seconds is not None
    assert waited.recorded.seconds >= 10
    assert waited.replayed.seconds is not None
    assert waited.replayed.seconds >= 10, "the place is free when the first pod is deleted, as recorded"
    assert not found.notes


def test_more_load_leaves_pods_without_a_node() -> None:
    lines, _ = recorded(*ONE_NODE, happening=three_pods)
    found = replay(lines, load_factor=2)
    assert (found.recorded.pods, found.replayed.pods) == (3, 6)
    assert found.replayed.scheduled == 3 + 1, "two CPUs each; the first two leave together"
    copies = [each for each in found.pods if each.recorded is None]
    assert [each.pod for each in copies] == [f"default/web-{number}-load-1" for number in range(3)]
    assert any("Insufficient cpu" in each.reason for each in found.pods)
    assert not found.ok


def test_nodes_and_their_capacity_come_as_recorded() -> None:
    async def node_comes(client: Client, clock: VirtualClock) -> None:
        await client.create(kinds.CLAIM, new_claim("data", "5Gi"), namespace="default")
        await client.create(kinds.POD, new_pod("web", claims=["data"]), namespace="default")
        await clock.sleep(20.0)
        await client.create(kinds.NODE, node_body(name="n2"))
        await client.create(kinds.CSI_NODE, csi_node_body(name="n2", topology={DRIVER: ["kubernetes.io/hostname"]}))
        await client.create(kinds.STORAGE_CAPACITY, pool("n2", "9Gi"), namespace="default")

    there = [*ONE_NODE[:-1], pool("n1", "1Gi")]
    lines, _ = recorded(*there, happening=node_comes)
    # The recorded cluster plays no driver on a node that it did not begin with.
    (web,) = replay(lines).pods
    assert web.replayed.node == "n2"
    assert web.replayed.seconds is not None
    assert web.replayed.seconds >= 20


def test_pods_that_wait_at_first_are_compared_too() -> None:
    async def nothing(client: Client, clock: VirtualClock) -> None:
        await clock.sleep(1.0)

    big = pod_body(name="big", uid="big-uid", requests={"cpu": "9"})
    (only,) = replay(recorded(*nodes(1), big, happening=nothing)[0]).pods
    assert (only.pod, only.at, only.recorded is not None and only.recorded.node, only.replayed.node) == (
        "default/big",
        0.0,
        "",
        "",
    )
    assert "Insufficient cpu" in only.reason


def test_pods_that_finish_give_their_place_back() -> None:
    async def job(client: Client, clock: VirtualClock) -> None:
        for number in range(2):
            await client.create(kinds.POD, new_pod(f"job-{number}", requests={"cpu": "3"}), namespace="default")
        await clock.sleep(20.0)
        done = MergePatch({"status": {"phase": "Succeeded"}})
        await client.patch(kinds.POD, "job-0", done, namespace="default", subresource="status")

    found = replay(recorded(*nodes(1), happening=job)[0])
    assert [each.replayed.node for each in found.pods] == ["n1", "n1"]
    assert found.pods[1].replayed.seconds is not None
    assert found.pods[1].replayed.seconds >= 20


def test_nothing_secret_is_recorded() -> None:
    async def secretive(client: Client, clock: VirtualClock) -> None:
        body = new_pod("web", annotations={"kubectl.kubernetes.io/last-applied-configuration": MARK})
        body["spec"]["containers"][0] |= {
            "env": [{"name": "PASSWORD", "value": MARK}],
            "args": [f"--password={MARK}"],
            "command": ["sh", "-c", MARK],
        }
        await client.create(kinds.POD, body, namespace="default")
        await client.create(
            kinds.SECRET, {"metadata": {"name": "s"}, "stringData": {"password": MARK}}, namespace="default"
        )
        await client.create(
            kinds.CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"password": MARK}}, namespace="default"
        )

    lines, _ = recorded(*nodes(1), happening=secretive)
    whole = b"".join(lines)
    assert b'"web"' in whole
    assert MARK.encode() not in whole


def test_file_is_bounded_and_says_so() -> None:
    whole, _ = recorded(*ONE_NODE, happening=three_pods)
    most = sum(map(len, whole)) * 2 // 3
    lines, counts = recorded(*ONE_NODE, happening=three_pods, max_bytes=most)
    assert sum(map(len, lines[:-1])) <= most
    assert counts.reason == "the file has its largest size"
    assert any("the file has its largest size" in note for note in replay(lines).notes)
    with pytest.raises(ExceptionGroup) as raised:
        recorded(*ONE_NODE, happening=three_pods, max_bytes=1000)
    assert isinstance(raised.value.exceptions[0], CannotRecord)
    assert "larger than the largest size" in str(raised.value.exceptions[0])


def test_full_disk_ends_the_recording_with_its_error() -> None:
    """Nothing is lost silently."""

    class FullDisk(list[bytes]):
        def append(self, line: bytes) -> None:
            if len(self) > 20:
                raise OSError(28, "No space left on device")
            super().append(line)

    with pytest.raises(ExceptionGroup) as raised:
        recorded(*ONE_NODE, happening=three_pods, lines=FullDisk())
    assert "No space left on device" in str(raised.value.exceptions[0])


def cut(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-2], lines[-2][:20]]


def test_truncated_file_is_used_up_to_there() -> None:
    lines, _ = recorded(*ONE_NODE, happening=three_pods)
    found = replay(cut(lines))
    assert [note for note in found.notes if "cut off within its last line" in note]
    assert found.recorded.pods == 3
    assert [note for note in replay(lines[:-1]).notes if "the recording has no end" in note]


LISTED = b'{"type":"LISTED"}\n'
HEADER = json.dumps({"format": FORMAT, "began": 0.0}).encode() + b"\n"
MALFORMED = {
    "empty": ([], "not a recording"),
    "other file": ([b"apiVersion: v1\n"], "not a recording"),
    "other format": ([b'{"format": "x", "began": 1}\n'], "has the format 'x'"),
    "no list": ([HEADER], "ends before all objects of the cluster were listed"),
    "malformed line": ([HEADER, LISTED, b"{}\n", LISTED], "line 3 of the recording is malformed"),
    "not JSON": ([HEADER, LISTED, b"x\n", LISTED], "line 3 of the recording is malformed"),
    "unknown kind": ([HEADER, LISTED, b'{"type":"ADDED","kind":"Secret","apiVersion":"v1"}\n'], "unknown kind Secret"),
    "no name": (
        [HEADER, LISTED, b'{"type":"ADDED","kind":"Pod","apiVersion":"v1","object":{"metadata":{}}}\n'],
        "line 3 of the recording has a Pod without a name",
    ),
    "unknown type": (
        [HEADER, LISTED, b'{"type":"X","kind":"Pod","apiVersion":"v1","object":{"metadata":{"name":"a"}}}\n'],
        "unknown type X",
    ),
}


@pytest.mark.parametrize(("lines", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_files_are_refused_with_the_line(lines: list[bytes], message: str) -> None:
    with pytest.raises(BadQuestion, match=message):
        read_recording(lines)


def test_objects_that_make_no_sense_are_refused_by_name() -> None:
    line = b'{"type":"EXISTING","kind":"Node","apiVersion":"v1","object":{"metadata":{"name":"n1"},"spec":7}}\n'
    for lines in ([HEADER, line, LISTED], [HEADER, LISTED, line.replace(b"EXISTING", b"ADDED")]):
        with pytest.raises(BadQuestion, match="Node n1"):
            replay(lines)


def test_command_replays_with_another_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods are spread in the recording, and packed in the replay."""

    async def two_pods(client: Client, clock: VirtualClock) -> None:
        for number in range(2):
            body = new_pod(f"web-{number}", requests={"cpu": "1"})
            await client.create(kinds.POD, body, namespace="default")
            await clock.sleep(5.0)

    monkeypatch.setattr("mooring.cli.runtime.configure_logging", lambda _: None)
    lines, _ = recorded(*nodes(2), happening=two_pods)
    file = tmp_path / "changes.jsonl"
    file.write_bytes(b"".join(lines))
    configuration = tmp_path / "packed.yaml"
    others = "plugins: {multiPoint: {disabled: [{name: PodTopologySpread}, {name: NodeResourcesBalancedAllocation}]}}"
    configuration.write_text(f"{PACK.read_text()}  {others}\n")

    def asked(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["simulate", "--replay", str(file), *arguments])

    spread, packed = (json.loads(asked(*more, "-o", "json").stdout) for more in ((), ("--config", str(configuration))))
    assert {each["recorded"]["node"] for each in packed["pods"]} == {"n1", "n2"}
    assert {each["replayed"]["node"] for each in spread["pods"]} == {"n1", "n2"}
    assert len({each["replayed"]["node"] for each in packed["pods"]}) == 1
    text = asked("--config", str(configuration))
    assert text.exit_code == 0
    assert "  scheduled      2          2" in text.stdout.splitlines()
    assert len([line for line in text.stdout.splitlines() if line.startswith("  default/web-")]) == 1
    file.write_bytes(b"".join(lines)[:-1] + b"x\n" + lines[-1])
    malformed = asked()
    assert (malformed.exit_code, "is malformed" in malformed.stderr) == (2, True)
    both = asked("-f", str(configuration))
    assert (both.exit_code, "leave out -f" in both.stderr) == (2, True)
