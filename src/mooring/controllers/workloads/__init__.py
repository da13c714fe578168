"""Controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets and PodDisruptionBudgets.

Each kind is a pair: `<kind>.py` decides, `<kind>_controller.py` watches and writes.
"""
