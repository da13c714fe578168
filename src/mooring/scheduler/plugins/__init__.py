"""The scheduler's plugins, named as kube-scheduler's and with its messages word for word.

A plugin has no state: what it computes for a pod is in the `CycleState`. Plugins do not know each other. `registry` has
their order.
"""
