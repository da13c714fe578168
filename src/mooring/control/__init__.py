"""The runtime of controllers: work queue, leader election, feature gates, metrics, invariants.

Above `client`, below the controllers; knows no kind but Lease.
"""
