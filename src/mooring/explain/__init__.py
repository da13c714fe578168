"""Why a pod is, or is not, where it is: the scheduler's own decision on listed objects, told to people and programs.

Pure: objects in, verdicts and words out. `cluster_objects` holds what was listed, `pod` runs the cycle on it, `claims`
looks at the volumes behind it, `words` says it. Reading files or a cluster is the command line's work.
"""
