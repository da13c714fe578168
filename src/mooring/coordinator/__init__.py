"""Commits the volumes of a pod together, or gives up those that block it.

The rules are in `volumes.holds`; here they meet the cluster. `standings` reads claims, volumes and pods off the
informers, `waiting` remembers since when something has been so, `component` looks at a held volume whenever anything it
depends on changes, asks the server itself before it decides, and swaps one field. It keeps nothing that a restart
would miss, and two of it at once do no harm: of two swaps that cross, one fails.
"""
