"""Provisioners that play the storage of a cloud: zonal and regional disks, racks, and disks of a node.

They stand where an external provisioner and its driver stand, and do what those do to objects: they answer claims
that name them in `volume.kubernetes.io/storage-provisioner`, create volumes with node affinity, give the choice of
node back when they cannot serve it, and delete what was released. There is no storage behind them. `disks` decides
where a volume goes, `claims` and `reclaim` what to do with an object, `component` does it.
"""
