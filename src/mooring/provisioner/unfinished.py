"""Attempts whose end nobody has heard of: what was asked, until the driver has said what became of it.

Until then the same request is repeated, whatever happens to the claim, its class or the nodes; only so does a volume
that was made unheard get its PersistentVolume, or a way to be deleted. The records lie in ConfigMaps of the driver's
namespace, written once an answer is missing, so that the process may end and the claim be deleted meanwhile.

An attempt that succeeds at once leaves no record and costs no write.
"""

import contextlib
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from mooring.client.contract import Client, Unreachable
from mooring.provisioner.planning import Plan
from mooring.volumes.holds.intent import Intent, MalformedIntent, Phase, to_data
from mooring.volumes.holds.objects import INTENT_RECORD, intent_name, intent_of

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: On a record: whose it is.
DRIVER_LABEL: Final = "mooring.dev/provisioner"


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
        labels = f"{DRIVER_LABEL}={self._driver}"
        listing = await self._client.list(INTENT_RECORD, namespace=self._namespace, labels=labels)
        for record in listing.items:
            try:
                if intent_of(record).held:
                    continue  # `held_attempts` reads it
                plan = msgspec.json.decode(record.data.get("plan", ""), type=Plan)
            except (MalformedIntent, msgspec.DecodeError) as error:
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
            await self._client.create(INTENT_RECORD, self._body(plan), namespace=self._namespace)
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
                await self._client.delete(INTENT_RECORD, intent_name(uid), namespace=self._namespace)
            self._sent.discard(uid)
            self._written.discard(uid)
        self._plans.pop(uid, None)

    def _body(self, plan: Plan) -> dict[str, object]:
        claim = plan.claim
        about = {"claim": f"{claim['namespace']}/{claim['name']}", "plan": msgspec.json.encode(plan).decode()}
        return {
            "metadata": {"name": intent_name(claim["uid"]), "labels": {DRIVER_LABEL: self._driver}},
            "data": to_data(Intent(0, plan.node, Phase.CREATING)) | about,
        }
