"""The embedded API server: Kubernetes' API for the kinds of `api.kinds`, on any store.

`verbs` has no HTTP, so that simulated clusters and the in-process client use it directly; `http` serves it. It takes no
scheduling or binding decisions.
"""
