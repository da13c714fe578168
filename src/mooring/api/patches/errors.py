"""Why a patch is refused.

    PatchError             the patch itself makes no sense
    ├── PathMissing        it names a place the document does not have
    ├── TestFailed         a `test` operation found another value
    └── TooManyOperations  it is longer than anybody needs

Which answer a client gets for each is the server's table.
"""

from typing import ClassVar


class PatchError(ValueError):
    """The patch cannot be applied, and the document is as it was."""


class PathMissing(PatchError):
    """A path leads to nothing in this document; in another it might."""


class TestFailed(PatchError):
    """The document does not hold what the patch relies on."""

    # pytest collects classes called Test… wherever a test module imports them.
    __test__: ClassVar[bool] = False


class TooManyOperations(PatchError):
    """The patch has more operations than are accepted."""
