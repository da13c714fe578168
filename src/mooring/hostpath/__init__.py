"""A CSI driver that keeps volumes on the machine it runs on: pools, limits, topology, state that survives crashes.

The core knows no gRPC: `driver` implements `mooring.csi.contract`, decisions are pure (`placement`, `usage`,
`capacity`), and what is kept (`state`) and what is really made (`backing`) are arguments, so that the simulated world
runs the same driver without a file. Meant for laptops, tests and single machines, not for data one cannot lose.
"""
