"""The vocabulary of Kubernetes as Mooring speaks it: kinds, typed read views, quantities, selectors, patches,
errors, and the names of annotations, finalizers and reasons.

Bottom layer: everything above imports it, it imports nothing of Mooring's but the clock. No I/O, no clock, no
state. It is not a client and not a full object model: bytes are the truth, views hold only what somebody reads,
and objects are changed by patches, never by encoding a view.
"""
