"""The scheduler's plugins: one file each, named as kube-scheduler names them, with its reasons word for word.

A plugin is a plain class without state: what it found out about a pod stays in the `Cycle`. Plugins do not know each
other; what several of them need lives beside this folder. The order they are asked in is `registry`.
"""
