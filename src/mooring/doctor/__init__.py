"""What is wrong or risky with the storage and scheduling of a cluster, ranked, each with evidence and fix. Pure.

A check is a function from listed objects to findings; `examination` has the table of checks and runs them.
"""
