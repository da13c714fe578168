"""Controllers that make, keep and clear away pods, and the collectors of what nobody looks after.

Each kind has a pure module that decides and a `…_controller` that carries it out: StatefulSets (`statefulset`,
`stateful_identity`, `claim_retention`), ReplicaSets and Deployments (`replicaset`, `deployment`, `deployment_sets`),
DaemonSets (`daemonset`, `daemon_placement`), budgets for disruptions (`disruption`). They share who owns what
(`ownership`, `owned_pods`), what was before (`revisions`) and what was asked for (`expectations`).

`node_lifecycle` and `taint_eviction` deal with nodes that are lost; `garbage` removes what lost its owner,
`stranded_pods` what lost its node, `namespaces` what lost its namespace. `service_accounts` and `role_aggregation` keep
what access control stands on. They talk to the scheduler and the PV
controller only through objects.
"""
