"""Controllers that make, keep and clear away pods: StatefulSets, and the collectors of what nobody looks after.

`statefulset` decides and `stateful_identity` makes the objects; `garbage` removes what lost its owner and
`stranded_pods` what lost its node. They talk to the scheduler and the PV controller only through pods and claims.
"""
