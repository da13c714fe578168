"""How components talk to an API server, any API server.

`contract` is all that controllers know; `http` speaks to any Kubernetes, and `cluster.local_client` to a server
in the same process. On top stand the informer (a cache kept current by a watch) and the event recorder. Controllers
import `contract`, `informer` and `recorder`, never `http`.
"""
