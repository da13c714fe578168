"""How new a read must be: at least as new as anything that was acknowledged, by whichever server, before it was asked.

One question to etcd serves everybody who came while the one before was under way.
"""

import asyncio

from mooring.store.contract import StoreClosed, StoreError
from mooring.store.etcd.loading import Loader


class Barrier:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        #: For those who came after the question under way was asked.
        self._next: asyncio.Future[int] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def newest(self) -> int:
        """etcd's revision at some moment after this call. Raises StoreError."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask(), name="etcd's revision")
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))

    async def _ask(self) -> None:
        while self._next is not None:
            asked, self._next = self._next, None
            try:
                asked.set_result((await self._loader.newest()).revision)
            except StoreError as error:
                asked.set_exception(error)
            except asyncio.CancelledError:
                for left in (asked, self._next):
                    if left is not None:
                        left.set_exception(StoreClosed("the store is closed"))
                        left.exception()  # whoever asked may be gone
                raise
