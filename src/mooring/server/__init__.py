"""The embedded API server: Kubernetes' API for the kinds of `api.kinds`, on any store.

`verbs/` holds one verb per file and knows no HTTP, so the simulated world and the in-process client use it as it
is; `http` is the shell that listens. It serves what storage scheduling needs on one machine and refuses the rest
out loud. It takes no scheduling or binding decision.
"""
