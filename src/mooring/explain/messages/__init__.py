"""What components of a cluster say about pods and claims, text by text: who says it, what it means and what to do.

`lookup` finds the rows that a message consists of, in today's words or in those of older releases; `page` prints them
all for the documentation. Rows name no objects: what is behind a message in one cluster is for the rest of `explain`.
"""
