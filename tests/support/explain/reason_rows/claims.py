"""Claims that cause messages of the PV controller."""

from collections.abc import Sequence

from mooring.api import well_known
from mooring.explain.messages.claims import CLAIMS
from support.builders import Body, claim_body, claim_ref, class_body, node_body, pod_body, volume_body
from support.builders.drivers import DRIVER
from support.explain.clusters import event_body
from support.explain.reason_rows.contract import FAST, N1, Stage, bound, taken

NOW = class_body(name="now", provisioner=DRIVER, binding_mode="Immediate")


def named(access_modes: Sequence[str] = ("ReadWriteOnce",)) -> Body:
    """A claim with the volumeName v1."""
    return claim_body(name="data", volume="v1", uid="data-uid", access_modes=access_modes)


def failed(message: str) -> Body:
    body = volume_body(name="v1", claim_ref=claim_ref(name="old", uid="old-uid"), phase="Failed")
    body["status"]["message"] = message
    return body


STATIC = class_body(binding_mode="Immediate")
DATA = claim_body(name="data")
MISMATCH = 'Cannot bind to requested volume "<volume>": <why>'

STAGES = [
    Stage(
        "waiting for first consumer to be created before binding",
        [N1, FAST, claim_body(name="data", storage_class="fast")],
        "NoConsumer",
        ["default/data", "class fast", "create a pod that uses it"],
    ),
    Stage(
        "waiting for pod <pod> to be scheduled",
        [node_body(name="n1", unschedulable=True), class_body(), DATA, pod_body(claims=["data"])],
        "ConsumerUnscheduled",
        ["default/data", "default/pod-1", "kubectl uncordon n1"],
    ),
    Stage(
        CLAIMS[2].text,
        [
            N1,
            NOW,
            claim_body(name="data", storage_class="now"),
            event_body(
                claim_body(name="data"), "ExternalProvisioning", "Waiting for a volume", at="2026-11-02T10:00:00Z"
            ),
        ],
        "WaitingForProvisioner",
        ["default/data", DRIVER, "since 2026-11-02T10:00:00Z", f"check that {DRIVER} runs"],
    ),
    Stage(
        "no persistent volumes available for this claim and no storage class is set",
        [N1, claim_body(name="data", storage_class=None), volume_body(name="v1", size="1Gi", storage_class="")],
        "NoVolume",
        ["default/data", "v1", "1Gi, 5Gi requested", "there is no default class", "add a volume for default/data"],
    ),
    Stage(
        "no volume plugin matched name: <provisioner>",
        [N1, STATIC, DATA, volume_body(name="v1", mode="Block")],
        "NoVolume",
        [
            "default/data",
            well_known.NO_PROVISIONER,
            "v1",
            "Block, Filesystem requested",
            "add a volume for default/data",
        ],
    ),
    *(
        Stage(text, [N1, class_body(), claim, volume], "NamedVolumeMismatch", ["default/data", "v1", figure, "again"])
        for text, claim, volume, figure in (
            (MISMATCH, named(), volume_body(name="v1", size="1Gi"), "1Gi, 5Gi requested"),
            ("requested PV is too small", named(), volume_body(name="v1", size="1Gi"), "1Gi, 5Gi requested"),
            (
                "storageClassName does not match",
                named(),
                volume_body(name="v1", storage_class="x"),
                "x, local requested",
            ),
            (
                "volumeAttributesClassName does not match",
                named(),
                volume_body(name="v1", attributes_class="gold"),
                "gold, none requested",
            ),
            ("incompatible volumeMode", named(), volume_body(name="v1", mode="Block"), "Block, Filesystem requested"),
            (
                "incompatible accessMode",
                named(access_modes=["ReadWriteMany"]),
                volume_body(name="v1"),
                "ReadWriteOnce, not ReadWriteMany",
            ),
            (
                'the volume is marked for deletion "<volume>"',
                named(),
                volume_body(name="v1", deleting=True),
                "since 2026-01-02T03:04:05Z",
            ),
            (
                'volume "<volume>" already bound to a different claim.',
                named(),
                volume_body(name="v1", claim_ref=claim_ref(name="old", uid="u"), phase="Bound"),
                "for default/old",
            ),
        )
    ),
    Stage(
        'Cannot bind PersistentVolume "<volume>" to requested PersistentVolumeClaim due to incompatible volumeMode.',
        [N1, STATIC, DATA, volume_body(name="v1", mode="Block", claim_ref=claim_ref(name="data"))],
        "NoVolume",
        ["default/data", "v1", "Block, Filesystem requested", "add a volume for default/data"],
    ),
    Stage(
        "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        [N1, FAST, bound("data", "v1", phase="Lost")],
        "Lost",
        ["default/data", "v1", "create PersistentVolume v1 again"],
    ),
    Stage(
        "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        [N1, FAST, claim_body(name="data", bound=True, phase="Lost")],
        "Lost",
        ["default/data", "spec.volumeName is empty", "delete pvc data"],
    ),
    Stage(
        "Two claims are bound to the same volume, this one is bound incorrectly",
        [N1, FAST, bound("data", "v1"), taken("v1", "old")],
        "Misbound",
        ["default/data", "v1", "default/old", "create the claim again"],
    ),
    *(
        Stage(
            text,
            [N1, STATIC, DATA, failed(event_text)],
            "NoVolume",
            ["default/data", "v1", f"Failed: {event_text}", "add a volume for default/data"],
        )
        for text, event_text in (
            ("Volume is used by pods: <pods>", "Volume is used by pods: default/web"),
            ("No recycler plugin found for the volume!", "No recycler plugin found for the volume!"),
            (
                "Volume has unrecognized PersistentVolumeReclaimPolicy",
                "Volume has unrecognized PersistentVolumeReclaimPolicy",
            ),
        )
    ),
    Stage(
        CLAIMS[-1].text,
        [
            N1,
            FAST,
            claim_body(name="data", volume="v1", bound=True, size="9Gi", uid="data-uid"),
            volume_body(name="v1", node="n1", size="8Gi", claim_ref=claim_ref(name="data", uid="data-uid")),
        ],
        "Bound",
        ["default/data", "requests 9Gi, and v1 has 8Gi", "external-resizer"],
    ),
]
