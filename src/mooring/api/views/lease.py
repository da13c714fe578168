"""Leases: heartbeats of nodes and the ground of leader election."""

from mooring.api.views.meta import ApiObject, View


class LeaseSpec(View, frozen=True, gc=False):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiObject, frozen=True, gc=False):
    spec: LeaseSpec = LeaseSpec()
