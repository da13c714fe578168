"""Attempts whose end nobody has heard of: what was asked, until the driver has said what became of it.

Until then the same request is repeated, whatever happens to the claim, its class or the nodes; only so does a volume
that was made unheard get its PersistentVolume, or a way to be deleted. The records lie in ConfigMaps of the driver's
namespace, written once an answer is missing, so that the process may end and the claim be deleted meanwhile.

An attempt that succeeds at once leaves no record and costs no write.
"""

import contextlib
from dataclasses import replace
from typing import Final, cast

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from mooring.api.kinds import CONFIG_MAP, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Unreachable
from mooring.provisioner.planning import Plan

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: On a record: whose it is.
DRIVER_LABEL: Final = "mooring.dev/provisioner"
#: The phase of an attempt that may have made a volume.
CREATING: Final = "Creating"


class Record(ApiObject, frozen=True, gc=False):
    data: dict[str, str] = {}


_RECORD: Final = cast("Kind[Record]", replace(CONFIG_MAP, view=Record))


class Unfinished:
    """By the claim's uid. Memory first; the API is told, and asked again after a restart."""

    def __init__(self, client: Client, *, driver: str, namespace: str, node: str = "") -> None:
        """`node` leaves to others what is made for other nodes."""
        self._client = client
        self._driver = driver
        self._namespace = namespace
        self._node = node
        self._plans: dict[str, Plan] = {}
        #: Whose records are there for sure, and whose may be.
        self._written: set[str] = set()
        self._sent: set[str] = set()

    def get(self, uid: str) -> Plan | None:
        return self._plans.get(uid)

    async def load(self) -> list[str]:
        """Take up what an earlier process left behind; the uids of the claims."""
        listing = await self._client.list(_RECORD, namespace=self._namespace, labels=f"{DRIVER_LABEL}={self._driver}")
        for record in listing.items:
            if "attempt" in record.data:
                continue  # a held one's, which `held_attempts` reads
            try:
                plan = msgspec.json.decode(record.data.get("plan", ""), type=Plan)
            except msgspec.DecodeError as error:
                log.error("record of an attempt cannot be read", record=record.key, why=str(error))
                continue
            if not self._node or plan.node == self._node:
                self._plans[plan.claim["uid"]] = plan
                self._written.add(plan.claim["uid"])
                self._sent.add(plan.claim["uid"])
        return list(self._plans)

    async def keep(self, plan: Plan) -> None:
        """The driver may be at it: remember what was asked. Memory has it even when the API refuses."""
        uid = plan.claim["uid"]
        self._plans[uid] = plan
        if uid in self._written:
            return
        self._sent.add(uid)
        try:
            await self._client.create(CONFIG_MAP, self._body(plan), namespace=self._namespace)
        except AlreadyExists:
            self._written.add(uid)
        except Forbidden as error:
            log.warning("unfinished attempts are not recorded: a restart may leave a volume behind", why=error.message)
        except (ApiError, Unreachable) as error:
            log.warning("attempt not recorded yet", claim=uid, why=str(error))
        else:
            self._written.add(uid)

    async def close(self, uid: str) -> None:
        """The end is known. Raises ApiError and Unreachable, and then still knows the attempt: a record left behind
        would be taken up again."""
        if uid in self._sent:
            with contextlib.suppress(NotFound):
                await self._client.delete(CONFIG_MAP, record_name(uid), namespace=self._namespace)
            self._sent.discard(uid)
            self._written.discard(uid)
        self._plans.pop(uid, None)

    def _body(self, plan: Plan) -> dict[str, object]:
        claim = plan.claim
        return {
            "metadata": {"name": record_name(claim["uid"]), "labels": {DRIVER_LABEL: self._driver}},
            "data": {
                "claim": f"{claim['namespace']}/{claim['name']}",
                "node": plan.node,
                "phase": CREATING,
                "plan": msgspec.json.encode(plan).decode(),
            },
        }


def record_name(uid: str) -> str:
    return f"intent-{uid}"
