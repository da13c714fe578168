"""The volume library: which volumes fit a claim, on which nodes, and what binding them takes.

Between `api` and everything else; pure, so that any scheduler can import it. Facts come in as changes of objects
(`VolumeState.observe_*`), answers come out for all nodes at once as node sets, and a plan for one chosen node. No
I/O, no clock, no randomness, no await; whoever uses it does the writing.
"""
