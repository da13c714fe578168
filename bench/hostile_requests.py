"""Effect of a hostile request on other clients: the worst delay of `/livez`, and the memory of the server.

    python -m bench.hostile_requests [FAMILY…] [--seconds N]

A `mooring apiserver` in its own process on an SQLite file, over TLS on loopback. Requests are sent one family after the
other, some of them several at once, while another process asks for `/livez` without a pause. The bars are 0.25 s and
100 MB over what the idle server takes. Bodies are built to be expensive: few bytes that stand for many values, lists
that are compared with themselves, nesting, products, and plain large ones of every format.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import re
import signal
import ssl
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

CONFIGS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
SETS: Final = "/apis/apps/v1/namespaces/default/deployments"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

#: Bytes that the server takes, and a little less.
LARGE: Final = 3_000_000
GONE: Final = "the server is gone"
BARS: Final = (0.25, 100.0)
#: A user with the right to write roles and no other, whom the administrator impersonates.
LIMITED: Final = {"Impersonate-User": "mallory", "Impersonate-Group": "system:authenticated"}


class Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = {}
    #: How many are sent at the same time.
    at_once: int = 1


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def named(name: str, **rest: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **rest}


def numbered(count: int, form: str = "k{}") -> list[str]:
    return [form.format(number) for number in range(count)]


def nested(opening: str, closing: str, depth: int, inside: str = "") -> bytes:
    return (opening * depth + inside + closing * depth).encode()


def multiplied(first: str, form: str, levels: int) -> bytes:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, levels + 1)]
    return "\n".join(lines).encode()


def pod(name: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def deployment(name: str, env: list[dict[str, str]]) -> dict[str, Any]:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def env_patch(env: list[dict[str, str]], **directives: Any) -> bytes:  # noqa: ANN401
    container = {"name": "c", "env": env, **directives}
    return encoded({"spec": {"template": {"spec": {"containers": [container]}}}})


def length_delimited(number: int, data: bytes) -> bytes:
    size, varint = len(data), b""
    while size >= 0x80:
        varint += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([size]) + data


def envelope(kind: str, message: bytes) -> bytes:
    type_meta = length_delimited(1, b"v1") + length_delimited(2, kind.encode())
    return b"k8s\0" + length_delimited(1, type_meta) + length_delimited(2, message)


def managed(paths: object) -> list[dict[str, Any]]:
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": paths}
    return [entry]


def deep_fields(depth: int, width: int) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:{word}": {} for word in numbered(width)}
    for _ in range(depth):
        fields = {"f:x": fields}
    return fields


def rule(*lists: list[str]) -> bytes:
    verbs, groups, resources, names = lists
    rules = [{"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names}]
    return encoded({"metadata": {"name": "wide"}, "rules": rules})


def families(divisor: int = 1) -> dict[str, Callable[[], list[Request]]]:
    """By name, the requests; those before the last prepare what it needs. `divisor` makes long ones shorter."""
    words = numbered

    def most(count: int) -> int:
        return count // divisor

    small_env = [{"name": word, "value": ""} for word in words(most(7_000), "E{}")]
    big_map = named("big", data=dict.fromkeys(words(most(45_000)), ""))
    applied = named("applied", data={"a": "1"})

    def post(body: bytes, path: str = REVIEWS, kind: str = JSON, **more: Any) -> Callable[[], list[Request]]:  # noqa: ANN401
        return lambda: [Request("POST", path, body, kind, **more)]

    def patched(first: object, path: str, body: bytes, kind: str) -> Callable[[], list[Request]]:
        collection = path.rpartition("/")[0]
        return lambda: [Request("POST", collection, encoded(first)), Request("PATCH", path, body, kind)]

    def claimed(fields: object) -> list[Request]:
        claim = named("applied", data={"a": "1"})
        claim["metadata"]["managedFields"] = managed(fields)
        apply = f"{CONFIGS}/applied?fieldManager=m"
        return [
            Request("PATCH", apply, encoded(applied), APPLY),
            Request("PUT", f"{CONFIGS}/applied", encoded(claim)),
            Request("PATCH", f"{apply}&force=true", encoded(named("applied", data={"a": "2"})), APPLY),
        ]

    return {
        "YAML: merge keys": post(multiplied("{k: x}", "{{<<: [{}]}}", 8), kind=YAML),
        "YAML: aliases of lists": post(multiplied("[x, x, x]", "[{}]", 9), kind=YAML),
        "YAML: aliases of a text": post(
            b"a: &a " + b"x" * most(500_000) + b"\nb: [" + b"*a," * most(9_000) + b"]", kind=YAML
        ),
        "YAML: a value in itself": post(b"a: &a [*a]", kind=YAML),
        "YAML: a key again and again": post(b"a: 1\n" * most(600_000), kind=YAML),
        "YAML: different keys": post("".join(f"k{n}: 1\n" for n in range(most(250_000))).encode(), kind=YAML),
        "YAML: large and plain": post(
            yaml.safe_dump(named("y", data={"t": "line\n" * most(45_000)})).encode(), CONFIGS, YAML
        ),
        "YAML: many small values": post(("a: [" + "1, " * most(900_000) + "]").encode(), kind=YAML),
        "YAML: values up to the bound": post(("a: [" + "1, " * most(45_000) + "]").encode(), kind=YAML),
        "YAML: brackets": post(b"[" * most(LARGE), kind=YAML),
        "YAML: dashes": post(b"- " * most(LARGE // 2), kind=YAML),
        "YAML: %TAG directives": post("".join(f"%TAG !a{n}! t:x,\n" for n in range(most(150_000))).encode(), kind=YAML),
        "JSON: brackets": post(b"[" * most(LARGE)),
        "JSON: lists 900 deep": post(nested('{"a":[', "]}", 450)),
        "JSON: empty lists": post(b'{"spec":[' + b"[]," * most(945_000) + b"[]]}"),
        "JSON: a key again and again": post(b'{"spec":{' + b'"a":1,' * most(45_000) + b'"a":1}}'),
        "JSON: long keys around repeated ones": post(
            nested(f'{{"{"k" * 1000}":', "}", 150, "{" + '"a":1,' * most(45_000) + '"a":1}')
        ),
        "JSON: unknown fields": post(
            encoded({"spec": dict.fromkeys(words(most(45_000)), 1)}), f"{REVIEWS}?fieldValidation=Strict"
        ),
        "JSON: numbers without end": post(b'{"metadata":{"generation":' + b"9" * most(LARGE) + b"}}"),
        "JSON: wrong types": post(encoded(named("w", data=dict.fromkeys(words(most(45_000)), 1))), CONFIGS),
        "JSON: large and plain": post(encoded(named("p", data={"t": "x" * most(1_000_000)})), CONFIGS),
        "JSON: large, sixteen at once": post(encoded(big_map), f"{CONFIGS}?dryRun=All", at_once=16),
        "JSON: entries up to the bound": post(
            encoded(named("e", data=dict.fromkeys(words(most(49_000)), ""))), CONFIGS
        ),
        "protobuf: empty messages": post(
            envelope("Pod", length_delimited(2, b"\x12\0" * most(1_400_000))), PODS, PROTOBUF
        ),
        "protobuf: one message again and again": post(envelope("Pod", b"\x0a\0" * most(1_400_000)), PODS, PROTOBUF),
        "protobuf: labels": post(
            envelope(
                "Pod",
                length_delimited(
                    1,
                    b"".join(length_delimited(11, length_delimited(1, word.encode())) for word in words(most(22_000))),
                ),
            ),
            PODS,
            PROTOBUF,
        ),
        "gzip: three hundred megabytes": post(
            gzip.compress(b" " * most(300_000_000)), headers={"Content-Encoding": "gzip"}
        ),
        "YAML: sixteen at once": post(("a: [" + "1, " * most(45_000) + "]").encode(), kind=YAML, at_once=16),
        "labels: invalid": post(
            encoded({"metadata": {"name": "l", "labels": dict.fromkeys(words(most(45_000), "-{}"), "-")}}), CONFIGS
        ),
        "labels: one of three megabytes": post(
            encoded({"metadata": {"name": "l", "labels": {"a." * most(1_400_000): ""}}}), CONFIGS
        ),
        "names: one of three megabytes": post(encoded({"metadata": {"name": "a." * most(1_400_000)}}), CONFIGS),
        "finalizers": post(encoded({"metadata": {"name": "f", "finalizers": words(most(45_000))}}), CONFIGS),
        "owners": post(
            encoded({"metadata": {"name": "o", "ownerReferences": [{"controller": True}] * most(22_000)}}), CONFIGS
        ),
        "quantities": post(
            encoded(
                pod(
                    "q",
                    containers=[
                        {
                            "name": "c",
                            "image": "i",
                            "resources": {"limits": {f"x.io/{n}": "1e999999999" for n in range(most(40_000))}},
                        }
                    ],
                )
            ),
            PODS,
        ),
        "pods: empty containers": post(encoded(pod("c", containers=[{}] * most(45_000))), PODS),
        "pods: volumes of one name": post(encoded(pod("v", volumes=[{"name": "a"}] * most(22_000))), PODS),
        "pods: volumes of different names": post(
            encoded(pod("v", volumes=[{"name": word} for word in words(most(22_000))])), PODS
        ),
        "pods: mounts": post(
            encoded(
                pod(
                    "m",
                    containers=[
                        {
                            "name": "c",
                            "image": "i",
                            "volumeMounts": [{"name": "v", "mountPath": word} for word in words(most(15_000), "/{}")],
                        }
                    ],
                )
            ),
            PODS,
        ),
        "pods: node selector terms": post(
            encoded(
                pod(
                    "t",
                    affinity={
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "a", "operator": "In", "values": words(100)}] * 10}
                                ]
                                * 40
                            }
                        }
                    },
                )
            ),
            PODS,
        ),
        "roles: four wide lists": post(rule(*[words(80, letter + "{}") for letter in "vgrn"]), ROLES, headers=LIMITED),
        "roles: four lists of thousands": post(
            rule(*[words(most(11_000), letter + "{}") for letter in "vgrn"]), ROLES, headers=LIMITED
        ),
        "managedFields: deep": lambda: claimed(deep_fields(150, most(20_000))),
        "managedFields: many": lambda: claimed({f"f:{word}": {} for word in words(most(45_000))}),
        "managedFields: as many as are taken": lambda: claimed(
            {"f:data": {f"f:{word}": {} for word in words(most(9_900))}}
        ),
        "JSON patch: copies of the whole": patched(
            named("j", data={"a": "x" * 1000}),
            f"{CONFIGS}/j",
            encoded([{"op": "copy", "from": "", "path": f"/data/k{n}"} for n in range(60)]),
            JSON_PATCH,
        ),
        "JSON patch: copies of empty lists": patched(
            named("j", data={"a": "x"}),
            f"{CONFIGS}/j",
            encoded(
                [{"op": "add", "path": "/x", "value": [[]] * most(8_000)}]
                + [{"op": "copy", "from": "/x", "path": f"/y{n}"} for n in range(most(9_000))]
            ),
            JSON_PATCH,
        ),
        "JSON patch: ten thousand operations": patched(
            named("j", data={"a": "x"}),
            f"{CONFIGS}/j",
            encoded(
                [{"op": "add", "path": "/x", "value": [0] * most(10_000)}]
                + [{"op": "add", "path": "/x/0", "value": 0}] * most(9_990)
            ),
            JSON_PATCH,
        ),
        "JSON patch: too many operations": patched(
            named("j"),
            f"{CONFIGS}/j",
            encoded([{"op": "test", "path": "/x", "value": None}] * most(30_000)),
            JSON_PATCH,
        ),
        "merge patch: large": patched(
            named("m"), f"{CONFIGS}/m", encoded({"data": dict.fromkeys(words(most(45_000)), "")}), MERGE
        ),
        "strategic patch: deletions": patched(
            deployment("d", small_env),
            f"{SETS}/d",
            env_patch([{"name": word, "$patch": "delete"} for word in words(most(16_000), "E{}")]),
            STRATEGIC,
        ),
        "strategic patch: retained keys": patched(
            deployment("d", []),
            f"{SETS}/d",
            encoded(
                {
                    "metadata": {
                        "annotations": {"$retainKeys": words(most(20_000)), **dict.fromkeys(words(most(20_000)), "")}
                    }
                }
            ),
            STRATEGIC,
        ),
        "strategic patch: order": patched(
            deployment("d", small_env),
            f"{SETS}/d",
            env_patch(
                [], **{"$setElementOrder/env": [{"name": word} for word in reversed(words(most(20_000), "E{}"))]}
            ),
            STRATEGIC,
        ),
        "apply: JSON of a megabyte": lambda: [
            Request(
                "PATCH", f"{CONFIGS}/aj?fieldManager=m", encoded(named("aj", data={"t": "x" * most(1_000_000)})), APPLY
            )
        ],
        "apply: entries up to the bound": lambda: [
            Request(
                "PATCH",
                f"{CONFIGS}/ae?fieldManager=m",
                encoded(named("ae", data=dict.fromkeys(words(most(45_000)), ""))),
                APPLY,
            ),
            Request(
                "PATCH",
                f"{CONFIGS}/ae?fieldManager=n",
                encoded(named("ae", data=dict.fromkeys(words(most(45_000)), "1"))),
                APPLY,
            ),
        ],
        "apply: repeated keys": lambda: [
            Request("POST", SETS, encoded(deployment("r", [{"name": "X"}, {"name": "X"}]))),
            Request(
                "PATCH",
                f"{SETS}/r?fieldManager=m",
                encoded(
                    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "r", "labels": {"a": "b"}}}
                ),
                APPLY,
            ),
            Request(
                "PATCH", f"{SETS}/r?fieldManager=m", encoded(deployment("r", [{"name": "X"}, {"name": "X"}])), APPLY
            ),
        ],
        "a small patch of a large object": patched(big_map, f"{CONFIGS}/big", encoded({"data": {"k1": "2"}}), MERGE),
        "label selector: many values": lambda: [
            Request("GET", f"/api/v1/pods?labelSelector=a+in+({','.join(words(1200))})"),
            Request(
                "GET",
                f"/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=a+notin+({','.join(words(1200))})",
            ),
        ],
        "field selector: backslashes": lambda: [
            Request("GET", f"/api/v1/pods?fieldSelector=metadata.name={'%5C' * 2400}")
        ],
        "continue token: nonsense": lambda: [Request("GET", f"/api/v1/pods?limit=1&continue={'A' * 7000}")],
        "versions: five thousand digits": lambda: [Request("GET", f"/api/v1/pods?resourceVersion={'9' * 5000}")],
        "percentages: five thousand digits": post(
            encoded(
                deployment("p", [])
                | {
                    "spec": deployment("p", [])["spec"]
                    | {"strategy": {"rollingUpdate": {"maxSurge": "9" * 5000 + "%"}}}
                }
            ),
            SETS,
        ),
        "tables of large lists": lambda: [
            *(Request("POST", CONFIGS, encoded(named(f"t{n}", data={"a": "b"}))) for n in range(700)),
            Request("GET", CONFIGS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
        ],
        "deletion of a collection": lambda: [
            Request("DELETE", f"{CONFIGS}?labelSelector=a+notin+({','.join(words(1200))})")
        ],
    }


class Client:
    """Requests on connections of their own, in threads: the measuring process does nothing else."""

    def __init__(self, port: int, trust: ssl.SSLContext, token: str) -> None:
        self._port, self._trust, self._token = port, trust, token

    def send(self, request: Request, seconds: float) -> str:
        connection = HTTPSConnection("127.0.0.1", self._port, context=self._trust, timeout=seconds)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": request.content_type} | request.headers
        try:
            connection.request(request.method, request.path, request.body or None, headers)
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except TimeoutError:
            return f"none in {seconds:.0f} s"
        except OSError as error:
            return type(error).__name__
        finally:
            connection.close()

    async def send_all(self, request: Request, seconds: float) -> str:
        sent = (asyncio.to_thread(self.send, request, seconds) for _ in range(request.at_once))
        return " ".join(sorted(set(await asyncio.gather(*sent))))


def probe(port: int, authority: str, pipe: Pipe) -> None:
    """Poll `/livez` continuously; report the worst delay since the previous report."""
    trust = ssl.create_default_context(cadata=authority)
    connection = HTTPSConnection("127.0.0.1", port, context=trust, timeout=120)
    worst = 0.0
    while True:
        began = time.perf_counter()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        worst = max(worst, time.perf_counter() - began)
        if pipe.poll():
            if pipe.recv() is None:
                return
            pipe.send(worst)
            worst = 0.0
        time.sleep(0.002)


class Server:
    """A `mooring apiserver`, and a client that polls its health."""

    def __init__(self, process: asyncio.subprocess.Process, data: Path) -> None:
        self.process = process
        #: Megabytes before the first hostile request.
        self.idle = 0.0
        config = yaml.safe_load((data / "kubeconfig").read_text())
        cluster = config["clusters"][0]["cluster"]
        port = int(cluster["server"].rpartition(":")[2])
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self.client = Client(port, ssl.create_default_context(cadata=authority), config["users"][0]["user"]["token"])
        self._pipe, theirs = multiprocessing.Pipe()
        self._probe = multiprocessing.Process(target=probe, args=(port, authority, theirs), daemon=True)
        self._probe.start()

    @classmethod
    async def start(cls, data: Path) -> "Server":
        command = (sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(data), "--secure-port", "0")
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert process.stdout is not None
        while await process.stdout.readline() != b"ready\n":
            assert process.returncode is None
        server = cls(process, data)
        await server.prepare()
        server.idle = server.resident()
        return server

    async def prepare(self) -> None:
        rules = [{"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}
        group = "/apis/rbac.authorization.k8s.io/v1"
        for path, body in (
            ("/api/v1/namespaces", {"metadata": {"name": "default"}}),
            (f"{group}/clusterroles", {"metadata": {"name": "writer"}, "rules": rules}),
            (f"{group}/clusterrolebindings", {"metadata": {"name": "writer"}, "roleRef": ref, "subjects": [subject]}),
        ):
            await self.client.send_all(Request("POST", path, encoded(body)), 10)
        await self.worst_delay()

    async def clean(self) -> None:
        """Delete the objects of one family before the next."""
        for path in (CONFIGS, PODS, ROLES, SETS):
            await self.client.send_all(Request("DELETE", f"{path}?gracePeriodSeconds=0"), 60)

    async def worst_delay(self) -> float:
        """Since the last time, in seconds."""
        self._pipe.send(True)
        return float(await asyncio.to_thread(self._pipe.recv))

    def resident(self, field: str = "VmRSS") -> float:
        """Megabytes; `VmHWM` is the most since `forget_peak`."""
        found = re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1]) / 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    async def stop(self) -> None:
        self._probe.terminate()
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()


class Row(NamedTuple):
    family: str
    size: int
    statuses: str
    seconds: float
    delay: float
    memory: float

    def shown(self) -> str:
        marks = "".join("!" for value, bar in zip((self.delay, self.memory), BARS, strict=True) if value > bar)
        return (
            f"{self.family:42} {self.size:>10,} {self.statuses:18} {self.seconds:7.2f} {self.delay * 1e3:8.0f}"
            f" {self.memory:8.0f} {marks}"
        )


async def measured(server: Server, family: str, requests: list[Request], seconds: float) -> Row:
    server.forget_peak()
    await server.worst_delay()
    began = time.perf_counter()
    statuses = [await server.client.send_all(request, seconds) for request in requests]
    took = time.perf_counter() - began
    if server.process.returncode is not None or statuses[-1].startswith("none"):
        return Row(family, _size(requests), GONE, took, took, 0.0)
    # Work that continues after the response counts as well.
    await asyncio.sleep(0.1)
    delay, memory = await server.worst_delay(), server.resident("VmHWM") - server.idle
    await server.clean()
    return Row(family, _size(requests), _told(statuses), took, delay, memory)


def _size(requests: list[Request]) -> int:
    return sum(len(request.body) + len(request.path) for request in requests)


def _told(statuses: list[str]) -> str:
    told: list[str] = []
    for status in statuses:
        if not told or told[-1] != status:
            told.append(status)
    return ", ".join(told)


async def main(wanted: list[str], seconds: float) -> None:
    print(f"{'family':42} {'bytes':>10} {'answers':18} {'seconds':>7} {'livez ms':>8} {'MB more':>8}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        server = await Server.start(Path(folder))
        for family, requests in _chosen(wanted):
            rows.append(await measured(server, family, requests(), seconds))
            print(rows[-1].shown(), flush=True)
            if rows[-1].statuses == GONE:
                await server.stop()
                server = await Server.start(Path(folder))
        await server.stop()
    print(
        f"worst: /livez {max(row.delay for row in rows) * 1e3:.0f} ms, memory {max(row.memory for row in rows):.0f} MB"
    )


def _chosen(wanted: list[str]) -> Iterator[tuple[str, Callable[[], list[Request]]]]:
    for family, requests in families().items():
        if not wanted or any(word in family for word in wanted):
            yield family, requests


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("families", nargs="*", help="those whose names contain one of these; all by default")
    arguments.add_argument("--seconds", type=float, default=20, help="how long an answer is waited for")
    asked = arguments.parse_args()
    asyncio.run(main(asked.families, asked.seconds))
