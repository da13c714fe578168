"""The small runtime every controller stands on: work queue, backoff, leader election, gates, metrics, run loop.

Above `client`, below the controllers. It knows no kind but the Lease and takes no decision; what a controller does with
a key is the controller's.
"""
