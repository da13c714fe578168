"""Nodes that admit, verify and run pods without containers: many in one process, as rows of data.

The node agent plays the kubelet's part towards the API: it registers Nodes (`rows`), refuses pods a kubelet would
refuse (`admission`), lets them wait for their volumes (`mounting`) and moves them through their phases (`lifecycle`).
It runs nothing; that is outside Mooring's scope.
"""
