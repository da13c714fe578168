"""Provisioner: CreateVolume and DeleteVolume through a CSI driver for claims and volumes, and CSIStorageCapacity.

`provision` serves claims and deletes released volumes, `rollback` adds the hold protocol for pods with several volumes,
`capacity` publishes free capacity, `standins` simulates cloud disks; `component` runs the first three. The driver is
reached through `csi.contract`; the PV controller binds the volumes that are created here.
"""
