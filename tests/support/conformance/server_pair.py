"""The same request to kube-apiserver and to ours, and both responses in a comparable form.

Values that differ between any two servers are replaced: uids, versions, times, generated names, field managers, and the
kind and version that our lists repeat in their items.
"""

import http.client
import json
import re
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

#: Fields that always differ.
_UNIQUE: Final = frozenset({"uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "continue"})
_DATED: Final = frozenset({"deletionTimestamp", "lastPhaseTransitionTime", "eventTime", "time", "disruptedPods"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD: Final = re.compile(r"in record \(\d+\)|in object meta: \d+|current: \d+")
#: Values that are objects: Go prints its own field names, and in some errors the change.
_OBJECT: Final = re.compile(r"value: \{.*?\}(?=: )")
_CHANGES: Final = re.compile(r"\n(@@|  core\.).*", re.DOTALL)
_AGE: Final = re.compile(r"\d+[smh]")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

_WORDS: Final = ((_UUID, "…"), (_MOMENT, "…"), (_RECORD, "in record"), (_OBJECT, "value: …"), (_CHANGES, ""))

Json = Any


class Request(Struct, frozen=True):
    """One request, as sent to both."""

    label: str
    method: str
    path: str
    body: Json = None
    headers: Mapping[str, str] = {}
    #: Sent as is, instead of a JSON body.
    raw: bytes | None = None


class ServerResponse(Struct, frozen=True):
    code: int
    body: Json
    warnings: tuple[str, ...]


class ApiEndpoint:
    """One connection to one server, as its administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
        self._address = urlsplit(cluster["server"]).netloc
        self._trust = trust
        self._token = config["users"][0]["user"]["token"]

    def send(self, request: Request) -> ServerResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "User-Agent": "both/1"}
        data = request.raw
        if data is None and request.body is not None:
            data = json.dumps(request.body, separators=(",", ":")).encode()
        if data is not None and "Content-Type" not in request.headers:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPSConnection(self._address, context=self._trust, timeout=20)
        try:
            connection.request(request.method, request.path, data, headers | dict(request.headers))
            response = connection.getresponse()
            text = response.read()
            warnings = tuple(response.headers.get_all("Warning") or ())
            return ServerResponse(response.status, _decoded(text), warnings)
        finally:
            connection.close()


def _decoded(text: bytes) -> Json:
    """JSON, the lines of a watch, or text."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text.decode(errors="replace")


def comparable(value: Json, *, in_list: bool = False) -> Json:
    """The value without what differs between any two servers."""
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            if key in _UNIQUE | _DATED:
                result[key] = "…" if item not in (None, "") else item
            elif key == "managedFields" or (in_list and key in ("kind", "apiVersion")):
                continue
            elif key == "description" and "priority" in value:
                continue  # a column description differs
            elif key == "causes":
                # kube-apiserver runs some checks twice, and lists both results.
                result[key] = list({json.dumps(cause, sort_keys=True): comparable(cause) for cause in item}.values())
            elif key == "items" and isinstance(item, list):
                result[key] = [comparable(one, in_list=True) for one in item]
            elif key == "cells":
                result[key] = [_cell(cell) for cell in item]
            elif key in ("serviceAccount", "serviceAccountName") and item == "default":
                continue  # the real one is started without the plugin that fills it in
            elif item is not None:
                result[key] = comparable(item)
        # Go writes empty strings and structs of zeros; clients treat them like absent fields.
        return {key: item for key, item in result.items() if not (_is_zero(item) and isinstance(item, dict | str))}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str):
        for pattern, instead in _WORDS:
            value = pattern.sub(instead, value)
        return value
    return value


def _cell(cell: object) -> object:
    """Roles show their creation time, all other kinds their age."""
    if _AGE.fullmatch(str(cell)):
        return "an age"
    return "a moment" if _MOMENT.fullmatch(str(cell)) else cell


def _is_zero(value: Json) -> bool:
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return not value


def differences(theirs: ServerResponse, ours: ServerResponse) -> list[str]:
    """Descriptions of differences by path; empty if the responses are equivalent."""
    found = [] if theirs.code == ours.code else [f"code: {theirs.code} / {ours.code}"]
    found += _differences(comparable(theirs.body), comparable(ours.body), "")
    if theirs.warnings != ours.warnings:
        found.append(f"warnings: {list(theirs.warnings)} / {list(ours.warnings)}")
    return found


def _differences(theirs: Json, ours: Json, path: str) -> list[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            words
            for key in sorted(theirs.keys() | ours.keys())
            for words in _differences(theirs.get(key), ours.get(key), f"{path}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [words for index, (one, other) in pairs for words in _differences(one, other, f"{path}[{index}]")]
    return [] if theirs == ours else [f"{path}: {_short(theirs)} / {_short(ours)}"]


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 400 else f"{text[:400]}…"


@contextmanager
def our_server(folder: Path) -> Iterator[ApiEndpoint]:
    """`mooring apiserver` in a process of its own."""
    kubeconfig = folder / "ours.kubeconfig"
    command = [sys.executable, "-m", "mooring", "apiserver", "--in-memory", "--secure-port", "0"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                break
        yield ApiEndpoint(kubeconfig)
    finally:
        process.terminate()
        process.communicate(timeout=20)
