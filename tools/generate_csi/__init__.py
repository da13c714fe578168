"""Generates the protobuf stubs of `mooring.csi.wire` from its `csi.proto`. Not part of the package."""
