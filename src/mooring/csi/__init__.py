"""The Container Storage Interface as Mooring's components see it.

`contract` is what provisioner and node agent may ask of a driver, whether it answers over gRPC or in the same
process. Nothing of gRPC shows here, and nothing of Kubernetes either.
"""
