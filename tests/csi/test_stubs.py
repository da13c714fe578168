"""The generated stubs are what csi.proto says, and csi.proto is what the specification says where it matters."""

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.csi.contract import AccessMode, ControllerCapability, NodeCapability, PluginCapability
from mooring.csi.wire import csi_pb2 as pb

ROOT = Path(__file__).parents[2]


def test_the_stubs_are_up_to_date() -> None:
    checked = subprocess.run([sys.executable, "-m", "tools.generate_stubs", "--check"], cwd=ROOT, check=False)
    assert checked.returncode == 0


def test_the_contract_and_the_messages_know_the_same_words() -> None:
    modes = dict(pb.VolumeCapability.AccessMode.Mode.items())
    assert {mode.name: mode.value for mode in AccessMode} == {name: n for name, n in modes.items() if n}
    assert set(PluginCapability) <= set(pb.PluginCapability.Service.Type.keys())
    assert set(ControllerCapability) <= set(pb.ControllerServiceCapability.RPC.Type.keys())
    assert set(NodeCapability) <= set(pb.NodeServiceCapability.RPC.Type.keys())


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            pb.CreateVolumeRequest,
            "name capacity_range volume_capabilities parameters secrets volume_content_source "
            "accessibility_requirements mutable_parameters",
        ),
        (pb.Volume, "capacity_bytes volume_id volume_context content_source accessible_topology"),
        (pb.GetCapacityResponse, "available_capacity maximum_volume_size minimum_volume_size"),
        (
            pb.NodePublishVolumeRequest,
            "volume_id publish_context staging_target_path target_path volume_capability readonly secrets "
            "volume_context",
        ),
        (
            pb.NodeStageVolumeRequest,
            "volume_id publish_context staging_target_path volume_capability secrets volume_context",
        ),
        (
            pb.ControllerPublishVolumeRequest,
            "volume_id node_id volume_capability readonly secrets volume_context",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_fields_are_numbered_as_in_the_specification(message: type, fields: str) -> None:
    descriptor = message.DESCRIPTOR  # type: ignore[attr-defined]
    assert {field.name: field.number for field in descriptor.fields} == {
        name: number for number, name in enumerate(fields.split(), start=1)
    }
