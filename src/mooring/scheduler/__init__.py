"""Decides which node a pod and its volumes go to, and carries the decision out.

The decision is pure: `queue`, `snapshot`, `cycle` and `plugins` take facts and return verdicts. `binder` and
`component` are the shell: they feed changes in, write claims, volumes and bindings, and report. It knows the other
controllers only through the objects they write.
"""
