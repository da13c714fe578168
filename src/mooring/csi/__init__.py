"""The Container Storage Interface: `contract` has the calls as plain values, `client` and `server` speak gRPC.

Callers use a driver through `contract`, whether it runs behind a socket or in the same process.
"""
