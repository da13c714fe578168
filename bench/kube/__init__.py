"""Mooring compared with Kubernetes' own components, on one real kube-apiserver: rates and costs.

    python -m bench.kube [--quick] [--sizes 200,500,1000,2000] [--json FILE] [--figure FILE]

`__main__` defines the measurements and their order, `sides` starts the measured and the shared processes, `cluster`
creates the objects, `runs` measures time and `watching` counts, `metering` reads processor time and memory, `report`
and `plot` show the results; `profiled` runs a component under a profiler. Needs the binaries that `make conformance`
builds.
"""
