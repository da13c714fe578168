"""The store on etcd: many API servers on one database that outlives any machine.

    write ──► Txn ──► etcd ──► Watch ──► replica ──► watches ──► `write` returns
                        └────► Watch ──► the replica of another server

`store` is the contract's Store. Reads are answered from `replica`, a copy in memory that `following` keeps up to date;
`barrier` says how new it must be, `loading` makes it, `compaction` lets etcd forget. `channel` is the line to etcd,
`layout` how keys and values lie there, `settings` what people choose. Knows nothing of Kubernetes.
"""
