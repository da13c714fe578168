"""CSI driver for volumes on its own machine: pools, limits, topology, crash-safe state.

`driver` implements `mooring.csi.contract` without gRPC; decisions are pure (`placement`, `usage`). State store and
backing are arguments, so that simulations run the same driver without files. For laptops, tests and single machines.
"""
