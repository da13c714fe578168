"""The provisioner: makes volumes for claims through a CSI driver, removes them, and publishes what room is left.

A claim's way: `eligibility` says whether it is ours to serve, `planning` what to ask the driver (`accessibility`,
`class_parameters`, `secret_references`), `attempt` what the answer means, `volume_object` what to write. `removal`
decides the same for volumes whose claims are gone. `provisioning` and `removing` carry it out, `component` runs them.
`publisher` keeps CSIStorageCapacity objects from `segments` and `capacity_objects`.

Not a driver, and not the one who binds: the driver is reached through `csi.contract`, and the PV controller binds
what is written here.
"""
