"""The PV controller: binds claims to volumes and maintains their phases.

`claim_sync` and `volume_sync` are the pure state machines, `component` runs them. For WaitForFirstConsumer classes
it waits for the scheduler to select a node.
"""
