"""Lines 31-42: watches start at the requested version, deliver every event once and in order, and end in time."""

import json
import time
from typing import Any

import pytest

from support.builders import pod_body
from support.checklist.programs import Programs
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl

STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def configs(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def version(wire: Wire, space: str) -> str:
    return str(wire.get(configs(space))["metadata"]["resourceVersion"])


def type_and_name(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def test_31_kubectl_watches(inside: Kubectl, program: Programs, space: str) -> None:
    shown = program(
        """
        import os, subprocess
        kubectl = ["kubectl", "-n", os.environ["SPACE"]]
        command = [*kubectl, "get", "configmaps", "-w", "--output-watch-events", "--request-timeout=20s"]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = []
        subprocess.run([*kubectl, "create", "configmap", "a"], check=True, capture_output=True)
        while not any(line.startswith("ADDED") for line in lines):
            lines.append(watching.stdout.readline())
        subprocess.run([*kubectl, "delete", "configmap", "a"], check=True, capture_output=True)
        while not lines[-1].startswith("DELETED"):
            lines.append(watching.stdout.readline())
        watching.kill()
        print("".join(lines))
        """,
        SPACE=space,
    )
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["EVENT", "NAME", "DATA", "AGE"]
    assert [row[:3] for row in rows[1:]] == [["ADDED", "a", "0"], ["DELETED", "a", "0"]]


def test_32_replay_from_a_version(wire: Wire, space: str) -> None:
    start = version(wire, space)
    wire.post(configs(space), config("a"))
    wire.patch(configs(space, "a"), {"data": {"k": "v"}})
    wire("DELETE", configs(space, "a"))
    with wire.watch(f"{configs(space)}?watch=1&resourceVersion={start}&timeoutSeconds=1") as events:
        seen = list(events)
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))


def test_33_leaving_a_selector_is_a_deletion(wire: Wire, space: str) -> None:
    wire.post(configs(space), config("a", x="1"))
    start = version(wire, space)
    wire.patch(configs(space, "a"), {"metadata": {"labels": {"x": "2"}}})
    with wire.watch(f"{configs(space)}?watch=1&labelSelector=x=1&resourceVersion={start}&timeoutSeconds=1") as events:
        (gone,) = list(events)
    assert (gone["type"], gone["object"]["metadata"]["labels"]) == ("DELETED", {"x": "1"})


def test_34_streaming_list(wire: Wire, space: str) -> None:
    for name in "ab":
        wire.post(configs(space), config(name))
    with wire.watch(f"{configs(space)}?watch=1&{STREAMING}&timeoutSeconds=5") as events:
        assert [type_and_name(next(events)), type_and_name(next(events))] == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = next(events)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("query", ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"])
def test_35_options_that_belong_together(wire: Wire, space: str, query: str) -> None:
    assert wire("GET", f"{configs(space)}?watch=1&{query}").code == 422


def test_36_ancient_version(wire: Wire, space: str) -> None:
    with wire.watch(f"{configs(space)}?watch=1&resourceVersion=1") as events:
        (only,) = list(events)
    assert (only["type"], only["object"]["code"], only["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_37_timeout(wire: Wire, space: str) -> None:
    began = time.monotonic()
    with wire.watch(f"{configs(space)}?watch=1&timeoutSeconds=1&resourceVersion={version(wire, space)}") as events:
        assert list(events) == []
    assert 0.9 < time.monotonic() - began < 10


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            import os
            from kubernetes import client, config, watch
            config.load_kube_config()
            stream = watch.Watch().stream(
                client.CoreV1Api().list_namespaced_pod, os.environ["SPACE"], timeout_seconds=1
            )
            print(*(event["type"] for event in stream))
            """,
            id="kubernetes",
        ),
        pytest.param(
            """
            import asyncio, os
            from kubernetes_asyncio import client, config, watch
            async def main():
                await config.load_kube_config()
                async with client.ApiClient() as api:
                    pods = client.CoreV1Api(api).list_namespaced_pod
                    async with watch.Watch().stream(pods, os.environ["SPACE"], timeout_seconds=1) as stream:
                        print(*[event["type"] async for event in stream])
            asyncio.run(main())
            """,
            id="kubernetes_asyncio",
        ),
        pytest.param(
            """
            import os
            from kr8s.objects import Pod
            import kr8s
            for event, pod in kr8s.api().watch("pods", namespace=os.environ["SPACE"]):
                print(event)
                break
            """,
            id="kr8s",
        ),
        pytest.param(
            """
            import os
            from lightkube import Client
            from lightkube.resources.core_v1 import Pod
            for event, pod in Client().watch(Pod, namespace=os.environ["SPACE"], server_timeout=1):
                print(event)
                break
            """,
            id="lightkube",
        ),
    ],
)
def test_38_python_clients_watch(inside: Kubectl, program: Programs, space: str, source: str) -> None:
    inside("create", "-f", "-", stdin=json.dumps(pod_body(name="p", namespace=space)))
    assert program(source, SPACE=space) == "ADDED"


def test_39_wait(inside: Kubectl, wire: Wire, space: str) -> None:
    inside("create", "-f", "-", stdin=json.dumps(pod_body(name="p", namespace=space)))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    wire.patch(f"/api/v1/namespaces/{space}/pods/p/status", ready)
    assert inside("wait", "--for=condition=Ready", "pod/p", "--timeout=5s") == "pod/p condition met\n"
    assert "condition met" in inside("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=5s")
    inside("delete", "pod", "p", "--grace-period=0", "--force")
    inside("wait", "--for=delete", "pod/p", "--timeout=5s")


def test_40_a_version_of_the_future(wire: Wire, space: str) -> None:
    began = time.monotonic()
    refused = wire("GET", f"{configs(space)}?resourceVersion=999999999")
    assert (refused.code, refused.json["reason"]) == (504, "Timeout")
    assert refused.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert time.monotonic() - began < 10


def test_42_web_sockets_are_rejected(wire: Wire, space: str) -> None:
    refused = wire("GET", f"{configs(space)}?watch=1", Upgrade="websocket", Connection="Upgrade")
    assert (refused.code, "WebSocket" in refused.json["message"]) == (501, True)
