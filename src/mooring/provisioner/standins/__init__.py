"""Stand-in provisioners, which simulate the storage of a cloud: zonal, regional, rack and node-local disks.

They do to objects what an external provisioner and its driver do: provision claims that name them in
`volume.kubernetes.io/storage-provisioner`, clear the selected node of claims that do not fit, and delete released
volumes. There is no storage behind them.
"""
