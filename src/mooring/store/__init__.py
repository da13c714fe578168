"""Where the embedded API server keeps its objects: bytes under keys, one global revision, watches.

Sits between `api` and `server`. `contract` is the whole of what the server may ask; `memory` is its executable
specification and serves the simulated world; `sqlite` adds durability, and `etcd` several servers on the same data. A
store knows nothing of Kubernetes: not what a value means, not who may write it.
"""
