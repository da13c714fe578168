"""The embedded world: store, API server and all components composed into one cluster.

`wiring` composes without HTTP (the simulated world uses it too), `serving` adds the listener, certificates and
the kubeconfig. Composition only: no rule of scheduling or storage lives here.
"""
