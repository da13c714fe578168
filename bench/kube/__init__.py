"""Mooring beside Kubernetes' own components, on one real kube-apiserver: who does how much, at what cost.

    python -m bench.kube [--quick] [--sizes 200,500,1000,2000] [--json FILE] [--figure FILE]

`__main__` says what is measured in which order, `sides` starts who is measured and who stands behind both, `cluster`
makes the objects they work on, `runs` takes the time and `watching` counts, `metering` reads processor time and memory,
`report` and `plot` show what came out; `profiled` is for those who want to know why. Needs the binaries that
`make conformance` builds.
"""
