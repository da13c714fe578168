"""Fuzzed requests: mutated objects of the field table; malformed paths, headers and bodies.

All values come from one `random.Random`, so a seed is a request. Values mostly have the right type, which reaches deep
into the server, and sometimes the wrong one.
"""

import json
import random
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mooring.api.kinds import KINDS, Kind
from mooring.api.schema.types import Field, Scalar, Shape, Type, type_of
from mooring.api.views.meta import ApiObject
from support.protobuf_encoder import envelope
from support.server.valid_objects import GOOD

METHODS: Final = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "FOO")
SUBRESOURCES: Final = ("status", "status", "scale", "binding", "eviction", "token", "finalize", "log", "x", "")
NAMES: Final = ("a", "b", "default", "node-1", "web-0", "x" * 63)
ODD_TEXTS: Final = (
    "", " ", "a/b", "..", "%", "\x00", "é", "\ud7ff", "😀", "A" * 300, "-", "1", "true", "null", "{}", "a=b", "a in (b",
    "metadata.name=a", "2026-01-01T00:00:00Z", "9" * 40, "-1", "1e400", "0x10", "Infinity", "system:masters", "*",
)  # fmt: skip
QUANTITIES: Final = ("1", "1Gi", "100m", "0", "-1", "1e3", "1E", "5.", ".5", "9" * 30, "1ki", "", "1 Gi", "0.1n")
MOMENTS: Final = (
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "2026-13-01T00:00:00Z", "0000-00-00T00:00:00Z", "now", "",
    "9999-12-31T23:59:59+14:00", "2026-01-01T00:00:00+99:99",
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, -1, 3600, 65535, 65536, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30)
WRONG: Final[tuple[object, ...]] = (None, True, 0, -1, 1.5, "", "x", [], {}, [None], {"a": None}, [[]], 10**30)
MEDIA_TYPES: Final = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "", "text/plain",
    "application/json;x",
    "application/json; charset=utf-16", "multipart/form-data", "\x7f",
)  # fmt: skip
PATCH_TYPES: Final = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "application/json", "",
)  # fmt: skip
ACCEPTS: Final = (
    "", "*/*", "application/json", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io", ";;;,,,q=", "a" * 5000,
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;q=nan,*/*;q=-1",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
)  # fmt: skip
FIXED_PATHS: Final = (
    "/api", "/apis", "/openapi/v3", "/version", "/metrics", "/livez/x", "//api//v1", "/healthz?verbose", "/apis/apps",
)  # fmt: skip
QUERIES: Final = (
    "watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "dryRun",
    "fieldManager", "fieldValidation", "force", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "pretty",
    "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "includeObject", "timeout", "x",
)  # fmt: skip
SELECTORS: Final = (
    "a=b", "a in (b,c)", "!a", "a notin ()", "a>1", "a", "a,,b", "in in (in)", "a=b=c", "a in (b", "(", "a\x00=b",
    "é=1",
    "a" * 10000, ",".join(["a"] * 3000), "metadata.name=a", "spec.nodeName!=n", r"metadata.name=a\,b",
    "metadata.name=\\",
)  # fmt: skip


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def watches(self) -> bool:
        return self.method == "GET" and "watch=" in self.target


class RequestFuzzer:
    def __init__(self, rng: random.Random, tokens: tuple[str, ...] = ()) -> None:
        self._rng = rng
        self._tokens = tokens
        #: Probability of an unusual value.
        self._wild = 0.02

    def request(self) -> Request:
        rng = self._rng
        self._wild = rng.choice((0.0, 0.002, 0.02, 0.2))
        kind = rng.choice(KINDS)
        named = rng.random() < 0.6
        usual = ("GET", "PUT", "PATCH", "PATCH", "DELETE") if named else ("GET", "POST", "POST", "POST", "DELETE")
        method = (
            rng.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "FOO")) if rng.random() < 0.08 else rng.choice(usual)
        )
        target = self._path(kind, named=named) + self._query(method)
        headers = self._headers()
        body = b""
        if method == "PATCH":
            headers["Content-Type"] = rng.choice(PATCH_TYPES)
            body = self._patch(kind, headers["Content-Type"])
        elif method in ("POST", "PUT", "DELETE"):
            body, headers["Content-Type"] = self._body(kind)
            if rng.random() < 0.03:
                headers["Content-Encoding"] = rng.choice(("gzip", "br", "identity", "x"))
        return Request(method, target, {k: v for k, v in headers.items() if v and _is_header(v)}, body)

    def _path(self, kind: Kind[ApiObject], *, named: bool) -> str:
        rng = self._rng
        lot = rng.random()
        if lot < 0.03:
            return "/" + "/".join(quote(self._text(), safe="") for _ in range(rng.randrange(6)))
        if lot < 0.05:
            return rng.choice(FIXED_PATHS)
        parts = [kind.root.strip("/")]
        if kind.namespaced and rng.random() < 0.97:
            parts += ["namespaces", "default" if rng.random() < 0.9 else quote(self._text(), safe="")]
        parts.append(kind.plural)
        if named:
            parts.append(rng.choice(NAMES) if rng.random() < 0.9 else quote(self._text(), safe=""))
            if rng.random() < 0.25:
                parts.append(
                    rng.choice(("status", "scale", "binding", "eviction", "token", "finalize", "log", "x", ""))
                )
        return "/" + "/".join(parts) + (rng.choice(("/", "//", "/..")) if rng.random() < 0.05 else "")

    def _query(self, method: str) -> str:
        rng = self._rng
        chosen = [name for name in QUERIES if rng.random() < 0.03]
        if method == "GET" and "watch" in chosen:
            chosen.append("timeoutSeconds")
        if not chosen:
            return ""
        pairs = [f"{name}={quote(self._query_value(name), safe='')}" for name in chosen]
        return "?" + "&".join(pairs)

    def _query_value(self, name: str) -> str:
        if name in ("labelSelector", "fieldSelector"):
            return self._rng.choice(SELECTORS)
        if name == "timeoutSeconds":
            return "1"
        usual = ("", "0", "1", "true", "All", "Strict", "Exact", "NotOlderThan", "Background", "m", "5", "999999999")
        return self._rng.choice((*usual, self._text()))

    def _headers(self) -> dict[str, str]:
        rng = self._rng
        accept = rng.choice(ACCEPTS) if rng.random() < 0.2 else "application/json"
        headers = {"Accept": accept, "User-Agent": rng.choice(("kubectl/v1 (x)", self._text()))}
        headers["Authorization"] = self._authorization()
        if rng.random() < 0.1:
            headers[
                rng.choice(("Impersonate-User", "Impersonate-Group", "Impersonate-Extra-A%2fb", "Impersonate-Foo"))
            ] = rng.choice(("alice", "system:serviceaccount:default:default", "system:masters", self._text()))
        if rng.random() < 0.03:
            headers["Upgrade"] = "websocket"
        return headers

    def _authorization(self) -> str:
        rng = self._rng
        if self._tokens and rng.random() < 0.93:
            return f"Bearer {self._tokens[0]}"
        token = rng.choice((*self._tokens, "x", self._text()))
        if rng.random() < 0.7:
            token = self._bent(token.encode(errors="ignore")).decode("latin-1")
        return f"{rng.choice(('Bearer', 'bearer', 'Basic', ''))} {token}"

    def _body(self, kind: Kind[ApiObject]) -> tuple[bytes, str]:
        rng = self._rng
        obj = self.made(kind)
        media_type = rng.choice(MEDIA_TYPES) if rng.random() < 0.3 else "application/json"
        if media_type == "application/vnd.kubernetes.protobuf":
            raw = self._protobuf(obj)
        elif media_type == "application/yaml" and rng.random() < 0.5:
            raw = self._text().encode(errors="ignore") + b": &a [*a, !!python/object:os.system {}]\n? {}\n: x"
        else:
            raw = json.dumps(obj).encode(errors="ignore")
        return (self._bent(raw) if rng.random() < self._wild else raw), media_type

    def _protobuf(self, obj: dict[str, Any]) -> bytes:
        try:
            return envelope(obj)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
            return b"k8s\x00" + self._rng.randbytes(60)  # bent beyond what the encoder can write

    def _patch(self, kind: Kind[ApiObject], media_type: str) -> bytes:
        rng = self._rng
        if media_type == "application/json-patch+json" and rng.random() < 0.9:
            return json.dumps([self._operation() for _ in range(rng.randrange(4))]).encode()
        obj = self.made(kind)
        if rng.random() < 0.4:
            obj = {key: value for key, value in obj.items() if rng.random() < 0.6}
        if rng.random() < 0.3:
            obj[rng.choice(("$patch", "$retainKeys", "$setElementOrder/x", "$deleteFromPrimitiveList/finalizers"))] = (
                rng.choice(("delete", "replace", ["a"], [{}], {}, None, 5))
            )
        raw = json.dumps(obj).encode(errors="ignore")
        return self._bent(raw) if rng.random() < self._wild else raw

    def _operation(self) -> dict[str, Any]:
        rng = self._rng
        paths = (
            "/metadata/labels", "/spec", "/metadata/finalizers/-", "/spec/containers/0/image", "", "/", "/~2", "/a~1b",
            "x",
            "/metadata/resourceVersion", "/spec/containers/99999999999999999999", "/spec/containers/-1", "/kind",
        )  # fmt: skip
        operation = {
            "op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": rng.choice(paths),
            "from": rng.choice(paths),
            "value": rng.choice(WRONG),
        }
        return {key: value for key, value in operation.items() if rng.random() < 0.9}

    def made(self, kind: Kind[ApiObject]) -> dict[str, Any]:
        """An object of a kind, valid or not."""
        rng = self._rng
        type_ = type_of(kind.api_version, kind.kind)
        if kind in GOOD and rng.random() < 0.7:
            obj: dict[str, Any] = json.loads(json.dumps(GOOD[kind]))
            for _ in range(rng.randrange(4)):
                self._alter(obj, type_)
        else:
            obj = self._struct(type_, 0)
        if rng.random() < 0.97:
            obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
        metadata = obj.get("metadata")
        if rng.random() < 0.97 or not isinstance(metadata, dict):
            obj["metadata"] = (metadata if isinstance(metadata, dict) else {}) | {"name": rng.choice(NAMES)}
            obj["metadata"].pop("namespace", None)
        return obj

    def _alter(self, obj: dict[str, Any], type_: Type) -> None:
        """Change, add or remove a random part."""
        rng = self._rng
        name = rng.choice([*obj, *type_.by_name])
        field, value = type_.by_name.get(name), obj.get(name)
        if field is None:
            return
        deeper = value[0] if isinstance(value, list) and value else value
        if isinstance(deeper, dict) and isinstance(field.value, Type) and rng.random() < 0.8:
            self._alter(deeper, field.value)
        elif rng.random() < 0.2:
            obj.pop(name, None)
        elif rng.random() < 0.2:
            obj[name] = rng.choice(WRONG)
        else:
            obj[name] = self._field(field, 1)

    def _struct(self, type_: Type, depth: int) -> dict[str, Any]:
        chance = 0.5 if depth < 2 else 0.25 / depth
        return {
            name: self._field(field, depth)
            for name, field in type_.by_name.items()
            if self._rng.random() < (0.9 if name in ("spec", "rules", "roleRef", "template") else chance)
        }

    def _field(self, field: Field, depth: int) -> object:
        rng = self._rng
        if rng.random() < self._wild / 4:
            return rng.choice(WRONG)

        def one() -> object:
            value = field.value
            return self._struct(value, depth + 1) if isinstance(value, Type) else self._scalar(value)

        match field.shape:
            case Shape.ONE:
                return one()
            case Shape.LIST:
                return [one() for _ in range(rng.choice((0, 1, 1, 2)))]
            case Shape.MAP:
                keys = ODD_TEXTS if rng.random() < self._wild else ("a", "storage", "cpu", "kubernetes.io/hostname")
                return {rng.choice(keys): one() for _ in range(2)}

    def _scalar(self, scalar: Scalar) -> object:
        rng = self._rng
        match scalar:
            case Scalar.BOOL:
                return rng.random() < 0.5
            case Scalar.INT32 | Scalar.INT64:
                return rng.choice(NUMBERS if rng.random() < self._wild else NUMBERS[:3])
            case Scalar.QUANTITY:
                return rng.choice(QUANTITIES if rng.random() < self._wild else QUANTITIES[:3])
            case Scalar.TIME | Scalar.MICRO_TIME:
                if rng.random() < self._wild:
                    return rng.choice(MOMENTS)
                return MOMENTS[0] if scalar is Scalar.TIME else MOMENTS[1]
            case Scalar.INT_OR_STRING:
                return rng.choice((1, 0, -1, "50%", "x", "101%") if rng.random() < self._wild else (1, 2, "50%"))
            case Scalar.BYTES:
                return rng.choice(("", "not base64", "YQ")) if rng.random() < self._wild else "YQ=="
            case Scalar.RAW:
                return rng.choice(WRONG)
            case Scalar.STRINGS:
                return [self._text()]
            case Scalar.STRING:
                words = (
                    "a",
                    "b",
                    "default",
                    "In",
                    "Exists",
                    "NoSchedule",
                    "ReadWriteOnce",
                    "Always",
                    "v1",
                    "Pod",
                    "Delete",
                )
                return self._text() if rng.random() < self._wild else rng.choice(words)

    def _text(self) -> str:
        rng = self._rng
        if rng.random() < 0.7:
            return rng.choice(ODD_TEXTS)
        return "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(12)))

    def _bent(self, raw: bytes) -> bytes:
        """Random bytes cut, doubled, swapped or replaced."""
        rng = self._rng
        bent = bytearray(raw)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(bent) + 1)
            match rng.randrange(4):
                case 0:
                    del bent[at : at + rng.randrange(8)]
                case 1:
                    bent[at:at] = rng.randbytes(rng.randrange(1, 8))
                case 2:
                    bent[at:at] = bent[: rng.randrange(20)]
                case _:
                    bent[at : at + 1] = rng.choice((b"\x00", b"\xff", b"{", b'"', b"[" * 50, b"\x80"))
        return bytes(bent)


def _is_header(value: str) -> bool:
    """Whether a client can send it; other headers are sent on a raw socket."""
    return (
        not any(letter in value for letter in "\r\n\x00")
        and value.isprintable()
        and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in value)
    )
