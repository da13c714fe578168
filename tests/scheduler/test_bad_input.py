"""Whatever a pod or an object asks for: a clear event, no crash, and other pods are placed as if nothing were wrong."""

from collections.abc import Sequence

import pytest

from mooring.api.kinds import BY_KIND, CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.scheduler.component import FAILED
from scheduler.test_component import scheduling
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.scheduler.cluster import SmallWorld, in_world

PREFIX = "0/1 nodes are available: "
#: Everything a claim may need, so that only what a row says is wrong.
OTHER_OBJECTS = (
    class_body(name="local"),
    class_body(name="now", binding_mode="Immediate"),
    class_body(name="made", provisioner=DRIVER),
    driver_body(tracks_capacity=True),
    csi_node_body(name="n1", limits={DRIVER: 5}),
    capacity_body(topology={}, capacity="1Ti"),
    volume_body(name="v1", node="n1"),
)

NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def put(world: SmallWorld, *bodies: Body) -> None:
    for body in bodies:
        world.put(BY_KIND[body["apiVersion"], body["kind"]], body)


def event_messages(pod: Body, *others: Body) -> list[str]:
    """The messages of the pod "bad"'s events, while the pod "good", with a volume of its own, is placed."""
    messages: list[str] = []

    async def scenario(world: SmallWorld) -> None:
        put(world, node_body(name="n1"), *OTHER_OBJECTS)
        with scheduling(world):
            await world.settle()
            put(world, *others)
            world.put(POD, pod)
            world.put(CLAIM, claim_body(name="good"))
            world.put(POD, pod_body(name="good", claims=["good"]))
            await world.settle(5.0)
            world.finish_bindings()
            await world.settle()
            assert world.node_of("good") == "n1"
            assert world.node_of("bad") == ""
            messages.extend(e.message for e in world.recorder.events if e.pod == "bad" and e.reason == FAILED)

    in_world(scenario)
    return messages


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param([], 'persistentvolumeclaim "c" not found', id="a claim that does not exist"),
        pytest.param(
            [claim_body(name="c", storage_class="none")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a class that does not exist",
        ),
        pytest.param(
            [claim_body(name="c", storage_class="now")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that is bound without us and was not",
        ),
        pytest.param(
            [claim_body(name="c", volume="nowhere", bound=True)],
            'persistentvolume "nowhere" not found',
            id="a volume that does not exist",
        ),
        pytest.param(
            [claim_body(name="c", size="a lot")],
            'persistentvolumeclaim "c" is invalid: quantity "a lot"',
            id="an invalid size",
        ),
        pytest.param(
            [claim_body(name="c", size="-5Gi")],
            'persistentvolumeclaim "c" is invalid: quantity "-5Gi" is negative',
            id="a negative size",
        ),
        pytest.param(
            [claim_body(name="c", size="-5Gi", storage_class="made")],
            'persistentvolumeclaim "c" is invalid: quantity "-5Gi" is negative',
            id="a negative size to be made",
        ),
        pytest.param(
            [claim_body(name="c", selector={"matchLabels": {"not a key": "x"}})],
            'persistentvolumeclaim "c" is invalid: ',
            id="an invalid selector",
        ),
        pytest.param(
            [claim_body(name="c", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})],
            'persistentvolumeclaim "c" is invalid: ',
            id="a selector with an odd operator",
        ),
        pytest.param(
            [claim_body(name="c", size="999999Ei", storage_class="made")],
            "1 node(s) did not have enough free storage",
            id="more than there is",
        ),
    ],
)
def test_claims(claims: Sequence[Body], want: str) -> None:
    [message] = set(event_messages(pod_body(name="bad", claims=["c"]), *claims))
    assert message.startswith(f"{PREFIX}{want}")


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({"requests": {"cpu": "one core"}}, 'quantity "one core"', id="an invalid request"),
        pytest.param({"requests": {"memory": "-1Gi"}}, 'quantity "-1Gi" is negative', id="a negative request"),
        pytest.param({"node_selector": {"not a key": "x"}}, "nodeSelector cannot be parsed", id="a node selector"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        NODE_AFFINITY: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
                    }
                }
            },
            "1 node(s) didn't match Pod's node affinity/selector",
            id="an affinity",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        NODE_AFFINITY: [{"topologyKey": "a", "labelSelector": {"matchLabels": {"not a key": "x"}}}]
                    }
                }
            },
            "affinity to other pods cannot be parsed",
            id="an affinity to pods",
        ),
        pytest.param({"node_selector": {"disk": "none"}}, "1 node(s) didn't match", id="a label no node has"),
    ],
)
def test_pods(pod: Body, want: str) -> None:
    [message] = set(event_messages(pod_body(name="bad", **pod)))
    assert message.startswith(PREFIX)
    assert want in message


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(volume_body(name="odd", size="a lot", node="n1"), id="a volume of an invalid size"),
        pytest.param(volume_body(name="odd", size="-1Gi", node="n1"), id="a volume of negative size"),
        pytest.param(
            volume_body(name="odd", affinity={"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b"}]}]}),
            id="a volume with an invalid node affinity",
        ),
        pytest.param(capacity_body(name="odd", topology={}, capacity="a lot"), id="an odd capacity"),
        pytest.param(
            capacity_body(name="odd", topology={"matchLabels": {"a b": "c"}}, capacity="1Gi"), id="an odd segment"
        ),
        pytest.param(csi_node_body(name="n2", limits={DRIVER: -1}), id="a negative limit"),
    ],
)
def test_objects(other: Body) -> None:
    """Other objects' errors neither keep a pod waiting nor decide its node."""
    [message] = set(event_messages(pod_body(name="bad", claims=["c"]), other, claim_body(name="c", size="100Gi")))
    assert message == f"{PREFIX}1 node(s) didn't find available persistent volumes to bind."


def test_a_thousand_volumes() -> None:
    names = [f"c{number}" for number in range(1000)]
    claims = [claim_body(name=name) for name in names]
    volumes = [volume_body(name=f"many-{number:04}", node="n1", storage_class="other") for number in range(1000)]
    [message] = set(event_messages(pod_body(name="bad", claims=names), *claims, *volumes))
    assert message == f"{PREFIX}1 node(s) didn't find available persistent volumes to bind."


def test_a_thousand_volumes_that_are_there() -> None:
    async def scenario(world: SmallWorld) -> None:
        put(world, node_body(name="n1"), class_body(name="local"))
        names = [f"c{number}" for number in range(1000)]
        for number, name in enumerate(names):
            world.put(CLAIM, claim_body(name=name, size=f"{1 + number % 7}Gi"))
            world.put(VOLUME, volume_body(name=f"v{number}", node="n1", size=f"{1 + number % 7}Gi"))
        with scheduling(world):
            world.put(POD, pod_body(name="huge", claims=names))
            await world.settle(5.0)
            world.finish_bindings()
            await world.settle()
            assert world.node_of("huge") == "n1"

    in_world(scenario)


def test_a_scheduler_that_does_not_exist_is_named_where_ours_is_the_only_one() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="n1"))
        with scheduling(world, only_scheduler=True):
            world.put(POD, pod_body(name="lost", scheduler="unknown"))
            await world.settle(60.0)
            world.put(STORAGE_CLASS, class_body())
            await world.settle()
        assert world.node_of("lost") == ""
        assert [(e.pod, e.reason, e.message) for e in world.recorder.events] == [
            ("lost", FAILED, 'schedulerName "unknown" is not served by any profile; available: default-scheduler')
        ]

    in_world(scenario)


def test_pod_of_another_scheduler_is_left_alone_on_other_clusters() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.put(NODE, node_body(name="n1"))
        with scheduling(world):
            world.put(POD, pod_body(name="theirs", scheduler="kube-like"))
            await world.settle(60.0)
        assert world.recorder.events == []

    in_world(scenario)
