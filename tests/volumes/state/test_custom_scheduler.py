"""The example of a scheduler of one's own runs, decides well, and is as short as it promises."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from support.builders import Body, claim_body, class_body, csi_node_body, node_body, pod_body, volume_body
from support.builders.drivers import DRIVER

pytestmark = [pytest.mark.req("T33.library"), pytest.mark.level("u")]

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_scheduler.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("custom_scheduler", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def waiting(name: str, *claims: str) -> Body:
    return pod_body(name=name, claims=claims, scheduler="my-scheduler", uid=f"{name}-uid")


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 100


def test_it_places_pods_with_their_volumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "cluster.json"
    items = [
        *(node_body(name=name) for name in ("n1", "n2", "n3")),
        csi_node_body(name="n3", limits={DRIVER: 0}),
        class_body(name="local"),
        class_body(name="made", provisioner=DRIVER),
        volume_body(name="pv-1", node="n1", version="1"),
        volume_body(name="pv-2", node="n2", version="1"),
        *(claim_body(name=name, uid=f"{name}-uid", version="1") for name in ("a", "b", "c")),
        claim_body(name="m", storage_class="made", uid="m-uid", version="1"),
        pod_body(name="old", node="n1", phase="Running", uid="old-uid"),
        waiting("first", "a"),
        waiting("second", "b"),
        waiting("third", "c"),
        waiting("fourth", "m"),
        pod_body(name="another-schedulers", uid="x"),
    ]
    dump.write_text(json.dumps({"items": items}))

    example().main(str(dump))

    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" --type")[0] for line in said] == [
        "kubectl patch pv pv-2",
        "# once its claims are bound: bind pod default/first to n2",
        "kubectl patch pv pv-1",
        "# once its claims are bound: bind pod default/second to n1",
        "# default/third: 0/3 nodes are available: node(s) didn't find available persistent volumes to bind",
        "kubectl annotate pvc -n default m volume.kubernetes.io/selected-node=n2",
        "# once its claims are bound: bind pod default/fourth to n2",
    ]
    reference = json.loads(said[0].partition("-p '")[2].removesuffix("'"))["spec"]["claimRef"]
    assert reference["name"] == "a"
    assert reference["uid"] == "a-uid"
