"""The API server over HTTP: sockets, authentication, routing, bodies, responses, watches, discovery.

The semantics of objects are behind `server.contract.Api`.
"""
