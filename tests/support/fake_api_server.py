"""A fake API server: passes the client conformance suite, and fails on demand.

Plain dicts, one counter, one history. It neither validates nor sets defaults; its responses are those of Kubernetes.
`interrupt`, `forget` and `mischief` inject failures.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from mooring.api import selectors
from mooring.api.errors import Conflict, Expired, Invalid, already_exists, conflict, not_found
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Json, JsonPatch, MergePatch, Patch, PatchError, apply_merge_patch, copied
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.views.meta import ApiObject
from mooring.api.well_known import INITIAL_EVENTS_END
from support.builders.objects import Body

T = TypeVar("T")

AnyKind = Kind[ApiObject]


class Sent(NamedTuple):
    """One event of a watch as it is sent."""

    type: str
    body: Body


class Written(NamedTuple):
    kind: AnyKind
    before: Body | None
    after: Body | None
    version: int


def _in_order(events: list[Sent]) -> list[Sent]:
    return events


class FakeApiServer:
    def __init__(self) -> None:
        self.version = 0
        #: Changes a batch of events before it is sent: repeats or reorders them.
        self.mischief: Callable[[list[Sent]], list[Sent]] = _in_order
        self._objects: dict[tuple[str, str, str], Body] = {}
        #: Every write has the next version, so the write of version n is at index n - 1.
        self._history: list[Written] = []
        self._oldest = 0
        self._news = asyncio.Event()
        self._interruptions: list[Exception | None] = []

    # --- injected failures ---

    def interrupt(self, error: Exception | None = None) -> None:
        """End every open watch, cleanly or with an error."""
        self._interruptions.append(error)
        self._wake()

    def forget(self) -> None:
        """Compact the history: earlier versions can no longer be watched from."""
        self._oldest = self.version

    # --- verbs ---

    def get(self, kind: AnyKind, namespace: str, name: str) -> Body:
        found = self._objects.get((kind.plural, namespace, name))
        if found is None:
            raise not_found(kind.plural, name, group=kind.group)
        return found

    def list(self, kind: AnyKind, namespace: str = "", labels: str = "") -> list[Body]:
        return [
            body
            for (plural, where, _), body in sorted(self._objects.items())
            if plural == kind.plural and namespace in ("", where) and _selected(labels, body)
        ]

    def create(self, kind: AnyKind, namespace: str, body: Mapping[str, Any]) -> Body:
        made = _copy(body)
        meta = made.setdefault("metadata", {})
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{self.version:05}"
        if (kind.plural, namespace, meta["name"]) in self._objects:
            raise already_exists(kind.plural, meta["name"], group=kind.group)
        meta |= {"uid": f"uid-{self.version}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        if kind.namespaced:
            meta["namespace"] = namespace
        if kind.has_status:
            made["status"] = {}
        return self._write(kind, None, {"apiVersion": kind.api_version, "kind": kind.kind, **made})

    def update(self, kind: AnyKind, namespace: str, name: str, body: Mapping[str, Any], subresource: str) -> Body:
        before = self.get(kind, namespace, name)
        after = _copy(body)
        stated = after["metadata"].get("resourceVersion", "")
        if stated not in ("", before["metadata"]["resourceVersion"]):
            raise conflict(kind.plural, name, group=kind.group)
        kept = {"namespace", "resourceVersion", "uid", "creationTimestamp"}
        after["metadata"] |= {field: value for field, value in before["metadata"].items() if field in kept}
        if subresource == "status":
            after = {**before, "status": after.get("status", {})}
        elif kind.has_status:
            after["status"] = before["status"]
        if after == before:
            return before
        if "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers"):
            self._write(kind, before, None)
            return after
        return self._write(kind, before, after)

    def patch(self, kind: AnyKind, namespace: str, name: str, patch: Patch, subresource: str) -> Body:
        before = self.get(kind, namespace, name)
        try:
            match patch:
                case MergePatch(body):
                    after = apply_merge_patch(before, _copy(body))
                case JsonPatch(body):
                    after = apply_json_patch(before, [_copy(each) for each in body])
                case _:
                    raise NotImplementedError("strategic merge")
        except PatchError as error:
            raise Invalid(str(error)) from error
        assert isinstance(after, dict)
        return self.update(kind, namespace, name, after, subresource)

    def delete(self, kind: AnyKind, namespace: str, name: str, *, uid: str = "", version: str = "") -> None:
        before = self.get(kind, namespace, name)
        meta = before["metadata"]
        if uid not in ("", meta["uid"]) or version not in ("", meta["resourceVersion"]):
            raise conflict(kind.plural, name, "the precondition does not hold", group=kind.group)
        if not meta.get("finalizers"):
            self._write(kind, before, None)
        elif "deletionTimestamp" not in meta:
            self._write(kind, before, before | {"metadata": meta | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})

    def bind(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        before = self.get(POD, namespace, name)
        if body["metadata"]["uid"] != before["metadata"]["uid"]:
            raise conflict("pods/binding", name, "it is another pod by now")
        if before["spec"].get("nodeName"):
            raise Conflict(f'pod {name} is already assigned to node "{before["spec"]["nodeName"]}"')
        self._write(POD, before, before | {"spec": before["spec"] | {"nodeName": body["target"]["name"]}})

    def evict(self, namespace: str, name: str, *, uid: str = "") -> None:
        pod = self.get(POD, namespace, name)
        if uid not in ("", pod["metadata"]["uid"]):
            raise conflict(POD.plural, name, "the precondition does not hold")
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        self._write(POD, pod, pod | {"status": pod.get("status", {}) | {"conditions": [disrupted]}})
        self.delete(POD, namespace, name, uid=uid)

    async def watch(
        self, kind: AnyKind, after: str | None, namespace: str = "", labels: str = ""
    ) -> AsyncGenerator[Sent, None]:
        cuts = len(self._interruptions)
        if after is None:
            position = self.version
            for event in self.mischief([Sent("ADDED", body) for body in self.list(kind, namespace, labels)]):
                yield event
            yield Sent("BOOKMARK", self._bookmark(kind, position))
        else:
            position = int(after)
            if position < self._oldest:
                raise Expired(f"too old resource version: {position} ({self._oldest})")
        while True:
            news = self._news
            writes, position = self._history[position:], max(position, self.version)
            sent = (_as_sent(write, namespace, labels) for write in writes if write.kind is kind)
            for event in self.mischief([event for event in sent if event is not None]):
                yield event
            if len(self._interruptions) > cuts:
                if (error := self._interruptions[cuts]) is not None:
                    raise error
                return
            await news.wait()

    # --- inside ---

    def _bookmark(self, kind: AnyKind, version: int) -> Body:
        meta = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}

    def _write(self, kind: AnyKind, before: Body | None, after: Body | None) -> Body:
        self.version += 1
        body = after if after is not None else before
        assert body is not None
        meta = body["metadata"]
        written = body | {"metadata": meta | {"resourceVersion": str(self.version)}}
        key = (kind.plural, meta.get("namespace", ""), meta["name"])
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = written
        self._history.append(Written(kind, before, None if after is None else written, self.version))
        self._wake()
        return written

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _copy(body: Mapping[str, Any]) -> Body:
    fresh: Json = copied(dict(body))
    assert isinstance(fresh, dict)
    return fresh


def _selected(labels: str, body: Body) -> bool:
    return selectors.parse_label_selector(labels).matches(body["metadata"].get("labels", {}))


def _as_sent(write: Written, namespace: str, labels: str) -> Sent | None:
    """The event for a watch with this selector: an object that stops matching is deleted for it, one that starts is
    added.
    """
    shown = write.after or write.before
    assert shown is not None
    if namespace not in ("", shown["metadata"].get("namespace", "")):
        return None
    was = write.before is not None and _selected(labels, write.before)
    is_now = write.after is not None and _selected(labels, write.after)
    if is_now:
        assert write.after is not None
        return Sent("MODIFIED" if was else "ADDED", write.after)
    if was:
        assert write.before is not None
        meta = write.before["metadata"] | {"resourceVersion": str(write.version)}
        return Sent("DELETED", write.before | {"metadata": meta})
    return None
