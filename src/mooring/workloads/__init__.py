"""Controllers that make and keep pods: StatefulSets, and the garbage collector that removes what lost its owner.

They talk to the scheduler and the PV controller only through pods and claims.
"""
