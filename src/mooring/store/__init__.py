"""Key-value stores of the embedded API server: bytes under keys, one global revision, watches.

`contract` is the interface. `watch_cache` has the in-memory store, its executable specification; `sqlite` adds
durability, `etcd` lets several servers share the data. A store does not interpret values or check permissions.
"""
