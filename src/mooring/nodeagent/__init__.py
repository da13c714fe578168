"""Node agent: simulated nodes without containers, many in one process.

It does what kubelets do towards the API: registers Nodes and renews their Leases, admits or rejects pods, mounts CSI
volumes and reports pod status. It runs no containers.
"""
