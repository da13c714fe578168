"""Generates the protobuf stubs of `mooring.csi.wire` and `mooring.store.etcd.wire`. Not part of the package."""
