"""Whose the published objects are: the pod, or who manages it, at any level."""

import pytest

from mooring.api.kinds import POD, REPLICA_SET
from mooring.provisioner.owner import NoOwner, owner_of
from partial_plane import Plane, run_plane


@pytest.mark.req("C8.owner")
def test_owners_are_looked_up_through_their_controllers() -> None:
    def owned(kind: str, name: str, uid: str) -> list[dict[str, object]]:
        return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}]

    async def scenario(plane: Plane) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        replica_set = await plane.create(
            REPLICA_SET,
            {
                "metadata": {
                    "name": "rs",
                    "namespace": "default",
                    "ownerReferences": owned("Deployment", "deploy", "d-1"),
                },
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
            },
        )
        pod = await plane.create(
            POD,
            {
                "metadata": {
                    "name": "p",
                    "namespace": "default",
                    "ownerReferences": owned("ReplicaSet", "rs", replica_set.uid),
                },
                "spec": template["spec"],
            },
        )
        found = [await owner_of(plane.client, pod="p", namespace="default", level=level) for level in range(-1, 3)]
        assert [each and (each.kind, each.uid) for each in found] == [
            None,
            ("Pod", pod.uid),
            ("ReplicaSet", replica_set.uid),
            ("Deployment", "d-1"),
        ]
        assert all(each is None or each.controller for each in found)
        with pytest.raises(NoOwner, match="cannot look up pod default/gone"):
            await owner_of(plane.client, pod="gone", namespace="default", level=0)

    run_plane([], scenario)
