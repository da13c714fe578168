"""API clients, informers and the event recorder.

Controllers import `contract`, `informer` and `recorder`, never `http`: the same code runs against any Kubernetes API
server and, with `cluster.local_client`, against one in the same process.
"""
