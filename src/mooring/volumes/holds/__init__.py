"""Volume holds: all volumes of a pod are held until they are complete, then committed or rolled back together.

Pure rules shared by scheduler, provisioner and coordinator, each of which may crash between any two writes:
`transitions` has the safety rules and the next step of provisioning, rollback and orphan removal; `policy` when a
held volume is committed or rolled back (liveness only); `objects` how state is stored in API objects. State is in
API objects alone: the volume's `claimRef`, one ConfigMap per claim, the claim's selected node. `tests/model`
explores all interleavings. The `group_` modules do the same for groups of pods, with one more ConfigMap per group.
"""
