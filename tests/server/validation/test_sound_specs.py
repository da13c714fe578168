"""What is remembered of pod specs that were found sound."""

from typing import Any

import pytest

from mooring.server.validation.pod import validate_pod
from mooring.server.validation.sound_specs import MAX_BYTES, SoundSpecs


def a_pod(**spec: object) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "app",
        "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File",
    }
    return {
        "metadata": {"name": "a"},
        "spec": {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "Default", **spec},
    }


def test_a_sound_spec_stays_sound_and_a_change_is_judged_anew() -> None:
    assert [*validate_pod(a_pod())] == []
    assert [*validate_pod(a_pod())] == []
    assert [cause.field for cause in validate_pod(a_pod(restartPolicy="Perhaps"))] == ["spec.restartPolicy"]


def test_a_faulty_spec_is_explained_every_time() -> None:
    first = [*validate_pod(a_pod(dnsPolicy="Nowhere"))]
    assert first
    assert [*validate_pod(a_pod(dnsPolicy="Nowhere"))] == first


def test_the_oldest_makes_room() -> None:
    specs = SoundSpecs(kept=2)
    keys = [specs.key({"nodeName": name}) for name in "abc"]
    for key in keys:
        specs.add(key)
    assert [key in specs for key in keys] == [False, True, True]


@pytest.mark.parametrize(
    ("size", "kept"), [pytest.param(10, True, id="short"), pytest.param(MAX_BYTES, False, id="long")]
)
def test_only_short_ones_are_kept(size: int, kept: bool) -> None:
    specs = SoundSpecs()
    key = specs.key({"nodeName": "x" * size})
    specs.add(key)
    assert (key in specs) is kept
