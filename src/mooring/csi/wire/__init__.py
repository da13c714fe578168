"""CSI's bytes: our own `csi.proto` and what the generator makes of it.

Only `csi.messages`, `csi.channel` and `csi.service` look in here; everybody else knows the plain values of
`csi.contract`. `csi_pb2.py` and `csi_pb2.pyi` are generated (`python -m tools.generate_stubs`) and never edited.
"""
