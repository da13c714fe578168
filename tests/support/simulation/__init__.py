"""The simulated cluster: the whole control plane in memory, in one thread and on virtual time, under fault injection.

An hour of cluster time costs milliseconds and a seed replays exactly. The components are those of the embedded cluster,
each as a process instance that can crash and restart.

    faults          fault plans, drawn from a seed     cluster      API server, instances, what a scenario sees
    injector        when a planned fault takes effect  history      every write with its author
    fault_scenario  run, check, shrink, report         invariants   after every write; `convergence` at the end
    faulty_client, faulty_driver                       API server, store and CSI drivers with injected faults
"""
