"""What would happen: a cluster as somebody listed it, changed, and left to the real control plane on virtual time.

Nothing real is touched, an hour costs what happens in it, and the same question gets the same answer.

    inventory                        the objects that are there, and those to come
    additions, removals, scaling     the changes that can be asked for; `question` applies them
    plane                            the control plane around the objects; `answer` lets it run
    kubelets, reported_storage       nodes and drivers, played
    comparison, verdict              what came of it, as an `outcome`
"""
