"""The simulated world: the whole control plane on a virtual clock, in memory, in one thread.

An hour of cluster time costs milliseconds, nothing real is touched, and a seed replays exactly. It composes the
same components as the embedded world.
"""
