"""Scheduler extender: lets a stock kube-scheduler use this scheduler's volume decisions (protocol v1).

    protocol ──► evaluator, on the scheduler's snapshot and plugins ──► protocol     filter, prioritize, preempt: pure
                                                      └──► bindings                  bind: the scheduler's binder

`component` runs it and follows the cluster; HTTP and TLS are `cluster.extender_server`'s. It has no queue, evaluates
volumes only, and keeps no reservation between two calls. `group_plans` keeps the plan of a group while kube-scheduler
asks for its members.
"""
