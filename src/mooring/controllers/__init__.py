"""Controllers of kube-controller-manager: workloads, nodes, namespaces, attach/detach, accounts and garbage collection.

They interact with the scheduler and the PV controller only through API objects.
"""
