"""The store on etcd: several API servers on one replicated database.

write ──► Txn ──► etcd ──► Watch ──► replica ──► watches ──► `write` returns
                    └────► Watch ──► the replica of another server
"""
