"""All of a pod's volumes or none: the protocol that holds volumes until they are complete, then commits or rolls back.

Pure rules that several components share and none owns, because each of them may crash between any two writes:

    intent         what a provisioner is about to do for a claim, on record before it does it
    facts          what the rules look at: a claim, its volume, its intent, the pods that want it
    provisioning   what a provisioner does next: open an attempt, create, save, close
    rollback       how a volume that was never bound goes: storage, choice of node, object, in that order
    gates          what must hold at the moment of a compare-and-swap for it to be safe, whoever asks
    verdicts       when a held volume is committed, when it is given up, and why: liveness, never safety
    damping        how long to wait before the same claim is tried again
    sweep          backend volumes that nothing names

State lies in API objects alone: the volume's `claimRef` (see `volumes.plan`), one ConfigMap per claim, the claim's
selected node. `tests/model` explores every interleaving of these very functions.
"""
