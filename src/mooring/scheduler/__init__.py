"""The scheduler: chooses a node for each pod and its volumes, and binds them.

The decision is pure: `queue`, `snapshot`, `framework`, `plugins` and the evaluation of preemption. The shell feeds
cluster events in and writes claims, volumes and bindings: `component`, `event_handlers`, `binding`. Other controllers
are known only through the objects they write.
"""
