"""Sources of segments: topology, file, driver call; and the flags that choose one."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.api.kinds import STORAGE_CAPACITY
from mooring.cli.commands.provisioner import provisioner as command
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.capacity.segment_file import (
    READ_INTERVAL_SECONDS,
    FileSegments,
    parse_segments,
)
from mooring.provisioner.capacity.segments import SegmentSourceName
from mooring.provisioner.capacity.templates import BadCapacityFile
from support.csi_drivers.recording import KEY, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import GI, ask, bound, furnish, plane_of

CAPACITIES = {"node-1": 10 * GI, "node-2": 4 * GI, "pool-9": 7 * GI}
Published = dict[str, str | int | None]


async def published(plane: Plane) -> Published:
    """Capacity by the value of the driver's topology key; "" for the whole cluster."""
    found = (await plane.client.list(STORAGE_CAPACITY, namespace="default")).items
    labels = [(each.node_topology.match_labels if each.node_topology is not None else {}, each) for each in found]
    return {own.get(KEY, ""): each.capacity for own, each in labels}


def publishing(
    source: SegmentSourceName, file: Path | None = None, *, node: str = "", capacities: Mapping[str, int] = CAPACITIES
) -> tuple[FakeCsiDriver, CapacitySettings]:
    settings = CapacitySettings("default", poll_interval=3600.0, segment_source=source, segment_file=file)
    return FakeCsiDriver(capacities, node=node), settings


@pytest.mark.req("C6.source")
def test_topology_is_the_union_over_nodes() -> None:
    driver, settings = publishing(SegmentSourceName.TOPOLOGY)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(2.0)
        assert await published(plane) == {"node-1": "10Gi", "node-2": "4Gi"}

    run_plane(plane_of(driver, capacity=settings), scenario)


@pytest.mark.req("C6.source")
def test_file_lists_segments_that_no_node_has(tmp_path: Path) -> None:
    """Changes of the file are published, and a volume refreshes all segments: it is not known which one it is in."""
    file = tmp_path / "segments.yaml"
    file.write_text(f"- {{{KEY}: pool-9}}\n")
    driver, settings = publishing(SegmentSourceName.FILE, file)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(2.0)
        assert await published(plane) == {"pool-9": "7Gi"}
        file.write_text(f"- {{{KEY}: pool-9}}\n- {{{KEY}: node-2}}\n")
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert await published(plane) == {"pool-9": "7Gi", "node-2": "4Gi"}
        file.write_text("no list")
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert await published(plane) == {"pool-9": "7Gi", "node-2": "4Gi"}, "the last usable content"
        file.write_text("[]")
        await plane.pass_time(READ_INTERVAL_SECONDS + 2.0)
        assert await published(plane) == {}

    run_plane(plane_of(driver, capacity=settings), scenario)


@pytest.mark.req("C6.source")
def test_driver_call_gives_the_one_segment() -> None:
    driver, settings = publishing(SegmentSourceName.DRIVER, node="pool-9", capacities={"pool-9": 7 * GI, "node-1": GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(2.0)
        assert await published(plane) == {"pool-9": "7Gi"}
        polls = len(driver.asked)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=10.0)
        await plane.pass_time(2.0)
        assert len(driver.asked) > polls, "a volume elsewhere refreshes it too"

    run_plane(plane_of(driver, capacity=settings), scenario)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("[]", [], id="none"),
        pytest.param("- {zone: z, rack: r}", [(("rack", "r"), ("zone", "z"))], id="sorted"),
        pytest.param('[{"rack": "a"}, {"rack": "a"}]', [(("rack", "a"),)], id="JSON, one of two equal ones"),
        pytest.param("- {}", [()], id="the whole cluster"),
    ],
)
def test_segment_file_content(text: str, want: list[tuple[tuple[str, str], ...]]) -> None:
    assert parse_segments(text) == frozenset(want)


@pytest.mark.parametrize("text", ["", "zone: z", "- zone", "- {zone: 1}", "- {", "[]\n---\n[]"])
def test_malformed_segment_files_are_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(BadCapacityFile, match="file: not a list of maps from label to value"):
        FileSegments(tmp_path / "file")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--capacity-segment-source=file"], "need each other", id="no file"),
        pytest.param(["--capacity-segment-file=x"], "need each other", id="a file for another source"),
        pytest.param(
            ["--capacity-segment-source=file", "--capacity-segment-file=missing"], "No such file", id="missing file"
        ),
        pytest.param(["--capacity-segment-source=driver", "--node-deployment"], "leave", id="on every node"),
    ],
)
@pytest.mark.req("C6.source")
def test_wrong_flags_are_reported(flags: list[str], message: str) -> None:
    result = CliRunner().invoke(command, flags)
    assert result.exit_code == 2
    assert message in result.output
