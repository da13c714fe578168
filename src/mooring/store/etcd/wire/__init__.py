"""etcd's bytes: our own `etcd.proto` and what the generator makes of it.

Only the modules of `store.etcd` look in here. `etcd_pb2.py` and `etcd_pb2.pyi` are generated
(`python -m tools.generate_stubs`) and never edited.
"""
