"""Nodes that admit, verify and run pods without containers: many in one process, as rows of data.

The node agent plays the kubelet's part towards the API: it registers Nodes, refuses what a kubelet would refuse,
and moves pods through their phases. It runs nothing; that is outside Mooring's scope.
"""
