"""The PV controller: binds claims to volumes, and keeps both honest about it.

`claims` and `volumes` are the pure state machines (facts in, intents out), `component` the shell that feeds and
obeys them. It never decides where a pod goes: for delayed classes it waits until the scheduler has.
"""
