"""Why pods, claims and nodes are as they are: the scheduler's own decision on listed objects, told to people and to
programs.

Pure: objects in, verdicts and words out. `cluster_objects` holds what was listed and `situation` makes it ready for
questions; `pod`, `claim`, `node` and `overview` answer them with the values of `verdicts`:

    pod        the cycle once more (`inspection`), per node `figures` and `neighbours`, per claim `claims` with
               `candidates` and `rooms`; then one sentence (`sentences`), notes (`pod_notes`) and what would
               help (`advice`, `remedies`)
    claim      `standings`: who has to act next, with `consumers`, `provisioning_progress` and `presence`
    words      the same as text; `messages/` knows what every text of a component means

Reading files or a cluster is the command line's work.
"""
