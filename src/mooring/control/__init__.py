"""The small runtime every controller stands on: work queue, backoff, component run loop.

Above `client`, below the controllers. It knows no kind and takes no decision; what a controller does with a key
is the controller's.
"""
