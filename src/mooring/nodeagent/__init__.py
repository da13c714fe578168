"""Nodes that admit, verify and run pods without containers: many in one process, as rows of data.

The node agent plays the kubelet's part towards the API: it registers Nodes and shows that they are alive (`rows`,
`heartbeat`, `registrar`), refuses pods a kubelet would refuse (`admission`, `places`), lets them wait for their volumes
(`mounting`, `projections`) and moves them through their lives (`script`, `stages`, `lifecycle`, `pod_runner`). It runs
nothing; that is outside Mooring's scope.
"""
