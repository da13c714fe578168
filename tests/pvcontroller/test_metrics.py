"""Metrics of the PV controller: claims and volumes, bound and not, under kube-controller-manager's names."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from mooring.control.component import Component, Context
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.builders import claim_body, class_body, volume_body
from support.partial_control_plane import Plane, run_plane

CSI = {"csi": {"driver": "disks.example.com", "volumeHandle": "1"}}


def samples(registry: CollectorRegistry) -> dict[str, dict[tuple[str, ...], float]]:
    """By metric and label values."""
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in registry.collect()
    }


@pytest.mark.req("C18.controller")
def test_claims_and_volumes_are_counted() -> None:
    registry = CollectorRegistry()

    def build(context: Context) -> Component:
        return PersistentVolumeController(replace(context, registry=registry))

    async def scenario(plane: Plane) -> None:
        assert all(not rows for rows in samples(registry).values())
        await plane.create(STORAGE_CLASS, class_body(name="now", binding_mode="Immediate"))
        await plane.create(VOLUME, volume_body(name="a", storage_class="now", node="node-1"))
        await plane.create(VOLUME, volume_body(name="b", storage_class="now", source=CSI, mode="Block"))
        for name, wanted in (("c", "now"), ("d", "other"), ("e", "other")):
            await plane.create(CLAIM, claim_body(name=name, storage_class=wanted))
        await plane.pass_time(1.0)
        assert samples(registry) == {
            "pv_collector_total_pv_count": {
                ("N/A", "Filesystem"): 1,
                ("kubernetes.io/csi:disks.example.com", "Block"): 1,
            },
            "pv_collector_bound_pv_count": {("now",): 1},
            "pv_collector_unbound_pv_count": {("now",): 1},
            "pv_collector_bound_pvc_count": {("default", "now", ""): 1},
            "pv_collector_unbound_pvc_count": {("default", "other", ""): 2},
        }
        await plane.client.delete(CLAIM, "c", namespace="default")
        await plane.client.delete(VOLUME, "b")
        await plane.pass_time(1.0)
        found = samples(registry)
        assert found["pv_collector_bound_pvc_count"] == {}
        assert found["pv_collector_total_pv_count"] == {("N/A", "Filesystem"): 1}
        assert found["pv_collector_unbound_pv_count"] == {("now",): 1}, "released"

    run_plane([build, VolumeProtection], scenario)
