"""The embedded world: store, API server and all components composed into one cluster.

`wiring` composes without HTTP (the simulated world uses it too), `api_process` is the API server with its listener,
certificates and kubeconfig, `serving` both together. `identities` says who each component is and what it may do,
`policy` puts that in place. Composition only: no rule of scheduling or storage lives here.
"""
