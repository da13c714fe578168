"""JSON patch (RFC 6902): operations at JSON pointers (RFC 6901), applied all or none.

As in kube-apiserver, a `test` for null succeeds if the member is absent from an existing object, which is how clients
say "only if not set". Negative list indexes, which its library accepts, are refused as the RFC demands.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api.documents import MAX_DEPTH
from mooring.api.patches.contract import Json, PatchError, PathMissing, TestFailed, TooManyOperations, copied

#: kube-apiserver's limit.
MAX_OPERATIONS: Final = 10_000
#: Bytes that all `copy` operations may add, kube-apiserver's limit: each copy of the root doubles the document.
MAX_COPIED: Final = 3 * 1024 * 1024
#: Bytes per value besides its characters: an empty list is two bytes of JSON and sixty of memory.
VALUE_WEIGHT: Final = 32

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
# At most 9 digits, longer than any list.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class _Pointer(NamedTuple):
    text: str
    tokens: tuple[str, ...]

    @property
    def parent(self) -> "_Pointer":
        return _Pointer(self.text.rpartition("/")[0], self.tokens[:-1])

    @property
    def last(self) -> str:
        return self.tokens[-1]


def apply_json_patch(doc: Json, ops: Json) -> Json:
    """The patched document; neither argument is changed, and the result shares nothing with them."""
    if not isinstance(ops, list):
        raise PatchError("a JSON patch is an array of operations")
    if len(ops) > MAX_OPERATIONS:
        raise TooManyOperations(f"the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}")
    document = _Document(copied(doc))
    for op in ops:
        document.apply(op)
    # The second copy checks the depth: moves can nest without bound.
    return copied(document.root)


class _Document:
    """The document being patched; discarded if an operation fails."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self._copied = 0

    def apply(self, op: Json) -> None:
        match op:
            case {"op": "add", "path": str(path), "value": value}:
                self._add(_pointer(path), copied(value))
            case {"op": "remove", "path": str(path)}:
                self._remove(_pointer(path))
            case {"op": "replace", "path": str(path), "value": value}:
                self._replace(_pointer(path), copied(value))
            case {"op": "move", "from": str(source), "path": str(path)}:
                self._move(_pointer(source), _pointer(path))
            case {"op": "copy", "from": str(source), "path": str(path)}:
                self._copy(_pointer(source), _pointer(path))
            case {"op": "test", "path": str(path), "value": value}:
                self._test(_pointer(path), copied(value))
            case _:
                raise PatchError(_why_malformed(op))

    def _add(self, at: _Pointer, value: Json) -> None:
        if not at.tokens:
            self.root = value
            return
        parent = self._find(at.parent)
        if isinstance(parent, dict):
            parent[at.last] = value
        elif isinstance(parent, list) and at.last == "-":
            parent.append(value)
        elif isinstance(parent, list) and (index := _index(at.last, end=len(parent) + 1)) is not None:
            parent.insert(index, value)
        else:
            raise _missing(at)

    def _remove(self, at: _Pointer) -> Json:
        if not at.tokens:
            raise PatchError("the whole document cannot be removed")
        container, key = self._member(at)
        value: Json = container.pop(key)
        return value

    def _replace(self, at: _Pointer, value: Json) -> None:
        if not at.tokens:
            self.root = value
            return
        container, key = self._member(at)
        container[key] = value

    def _move(self, source: _Pointer, at: _Pointer) -> None:
        if source.tokens == at.tokens:
            self._find(source)
            return
        if at.tokens[: len(source.tokens)] == source.tokens:
            raise PatchError(f'"{source.text}" cannot be moved into itself at "{at.text}"')
        self._add(at, self._remove(source))

    def _copy(self, source: _Pointer, at: _Pointer) -> None:
        value = self._find(source)
        self._copied = _weighed(value, self._copied)
        self._add(at, copied(value))

    def _test(self, at: _Pointer, value: Json) -> None:
        parent = self._find(at.parent) if at.tokens else None
        found = parent.get(at.last) if isinstance(parent, dict) else self._find(at)
        if not _same(found, value):
            raise TestFailed(f'testing value "{at.text}" failed')

    def _member(self, at: _Pointer) -> tuple[Any, Any]:
        """The container of an existing value, and the value's key or index in it."""
        parent = self._find(at.parent)
        if isinstance(parent, dict) and at.last in parent:
            return parent, at.last
        if isinstance(parent, list) and (index := _index(at.last, end=len(parent))) is not None:
            return parent, index
        raise _missing(at)

    def _find(self, at: _Pointer) -> Json:
        node = self.root
        for token in at.tokens:
            if isinstance(node, dict) and token in node:
                node = node[token]
            elif isinstance(node, list) and (index := _index(token, end=len(node))) is not None:
                node = node[index]
            else:
                raise _missing(at)
        return node


def _pointer(text: str) -> _Pointer:
    if text and not text.startswith("/"):
        raise PatchError(f'path "{text}" is not a JSON pointer: it must be empty or start with "/"')
    if _BAD_ESCAPE.search(text):
        raise PatchError(f'path "{text}" is not a JSON pointer: "~" must be written "~0"')
    tokens = tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])
    if len(tokens) > MAX_DEPTH:
        raise PatchError(f"a path may have at most {MAX_DEPTH} parts")
    return _Pointer(text, tokens)


def _index(token: str, *, end: int) -> int | None:
    """The index of a token; None if it is not an index below `end`."""
    if not _INDEX.fullmatch(token):
        return None
    index = int(token)
    return index if index < end else None


def _missing(at: _Pointer) -> PathMissing:
    return PathMissing(f'the document has no path "{at.text}"')


def _why_malformed(op: Json) -> str:
    if not isinstance(op, dict):
        return "an operation of a JSON patch is an object"
    name = op.get("op")
    if not isinstance(name, str) or name not in _NEEDED:
        return f'unexpected operation "{name}", expected one of {", ".join(_NEEDED)}'
    return f'a "{name}" operation needs {" and ".join(_NEEDED[name])}'


def _same(left: Json, right: Json) -> bool:
    """Equal as JSON: 1 and 1.0 are one number, but Python's True is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(member, right[key]) for key, member in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) is isinstance(right, bool) and left == right


def _weighed(value: Json, weight: int) -> int:
    """`weight` plus that of the value; raises PatchError beyond MAX_COPIED, before anything is copied."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        weight += VALUE_WEIGHT
        if isinstance(current, dict):
            weight += sum(map(len, current))
            waiting += current.values()
        elif isinstance(current, list):
            waiting += current
        elif isinstance(current, str):
            weight += len(current)
        if weight > MAX_COPIED:
            raise PatchError(f"the patch copies more than {MAX_COPIED} bytes")
    return weight
