"""The coordinator: commits the held volumes of a pod together, or rolls back those that block it.

The rules are in `volumes.holds`. It keeps no state that a restart would lose, and two instances are safe: of two
concurrent compare-and-swaps one fails.
"""
