"""Simulates a changed cluster: listed objects, the real control plane, virtual time. Touches nothing real;
deterministic.

    inventory                    objects that exist, and objects to create
    question, additions          the requested changes, applied
    run                          control plane around the objects, run until nothing changes
    actors, simulated_driver     simulated kubelets, evictions and CSI drivers
    results                      before and after compared: `SimulationResult`
"""
