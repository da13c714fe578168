"""Messages as people paste them, and the sections they lead to."""

import pytest

from mooring.explain.messages import MESSAGES, find, remedy
from mooring.explain.results import Message


def texts(message: str) -> list[str]:
    return [found.text for found in find(message)]


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(
            "0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
            ["node(s) didn't match PersistentVolume's node affinity"],
            id="the affinity conflict of older releases",
        ),
        pytest.param(
            "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.",
            ["node(s) didn't match PersistentVolume's node affinity"],
            id="the affinity conflict of today",
        ),
        pytest.param(
            "0/8 nodes are available: 1 node(s) had volume node affinity conflict, 3 Insufficient cpu, 4 node(s) "
            "didn't match Pod's node affinity/selector. preemption: 0/8 nodes are available: 5 Preemption is not "
            "helpful for scheduling, 3 No preemption victims found for incoming pod.",
            [
                "node(s) didn't match PersistentVolume's node affinity",
                "Insufficient <resource>",
                "node(s) didn't match Pod's node affinity/selector",
                "Preemption is not helpful for scheduling",
                "No preemption victims found for incoming pod",
            ],
            id="a whole event, in its order",
        ),
        pytest.param(
            "1 node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't tolerate.",
            ["node(s) had untolerated taint(s)"],
            id="a taint that is named",
        ),
        pytest.param(
            "pod has unbound PersistentVolumeClaims (repeated 3 times)",
            ["pod has unbound immediate PersistentVolumeClaims"],
            id="unbound claims before there were immediate ones",
        ),
        pytest.param(
            'running PreBind plugin "VolumeBinding": binding volumes: pv "v1" node affinity doesn\'t match node "n1": '
            "no matching NodeSelectorTerms",
            [
                'running PreBind plugin "VolumeBinding": <problem>',
                "binding volumes: <problem>",
                'pv "<volume>" node affinity doesn\'t match node "<node>": <why>',
            ],
            id="a message within a message",
        ),
        pytest.param(
            'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
            ['running PreBind plugin "VolumeBinding": <problem>', "binding volumes: context deadline exceeded"],
            id="the longer text wins",
        ),
        pytest.param(
            'failed to provision volume with StorageClass "fast": rpc error: code = Internal desc = no space left',
            [
                'failed to provision volume with StorageClass "<class>": <why>',
                "rpc error: code = Internal desc = <why>",
            ],
            id="what a driver answered",
        ),
        pytest.param(
            'rpc error: code = FailedPrecondition desc = "x"',
            ["rpc error: code = <code> desc = <why>"],
            id="a code without a section of its own",
        ),
        pytest.param(
            "waiting for pods a,b to be scheduled", ["waiting for pod <pod> to be scheduled"], id="several pods"
        ),
        pytest.param("it does not work", [], id="no component reports that"),
    ],
)
def test_a_message_leads_to_its_sections(message: str, want: list[str]) -> None:
    assert texts(message) == want


@pytest.mark.parametrize("message", [pytest.param(message, id=message.text) for message in MESSAGES])
def test_every_text_leads_to_its_own_section(message: Message) -> None:
    for text in (message.text, *message.older_texts):
        spoken = text.replace("<", "").replace(">", "")
        assert message in find(spoken), spoken


def test_sections_have_places_of_their_own() -> None:
    anchors = [message.anchor for message in MESSAGES]
    assert len(set(anchors)) == len(anchors)


def test_the_remedy_is_that_of_what_comes_last() -> None:
    outer = 'failed to provision volume with StorageClass "fast": rpc error: code = ResourceExhausted desc = full'
    assert remedy(outer).startswith("Free or add storage")
    assert remedy("it does not work") == ""
