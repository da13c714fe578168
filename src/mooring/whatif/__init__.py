"""Simulates a changed cluster: listed objects, the real control plane, virtual time. Touches nothing real;
deterministic.

    inventory                    objects that exist, and objects to create
    question, additions          the requested changes, applied
    run                          control plane around the objects, run until nothing changes
    actors, simulated_driver     simulated kubelets, evictions and CSI drivers
    group_advisor                which node group would help, for the HTTP endpoint of the page
    rebalance                    moves that let a pending pod run
    recorder, recording, replay  a live cluster's changes, written, read and played back
    results                      before and after compared: `SimulationResult`
"""
