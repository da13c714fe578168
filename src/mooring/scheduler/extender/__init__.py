"""Lends the volume decisions of this scheduler to a stock kube-scheduler, by its extender protocol.

    wire ──► judgement, on the same snapshot and plugins ──► wire        filter, prioritize, preempt: pure
                                                     └─────► bindings    bind: the scheduler's own binder

`component` holds it together and follows the cluster; `contact` notices when nobody calls. It opens no port: HTTP and
TLS are `cluster.extender_door`'s. It has no queue, judges nothing but volumes, and keeps no promise between two calls.
"""
