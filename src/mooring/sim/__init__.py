"""The simulated world: the whole control plane on a virtual clock, in memory, in one thread.

An hour of cluster time costs milliseconds, nothing real is touched, and a seed replays exactly. It composes the
same components as the embedded world, each as a process of its own that can be struck by faults.

    loop      virtual time                      world      API server, instances, what a scenario sees
    faults    a plan of what goes wrong         instance   a component through its crashes
    weather   the plan in force                 history    who wrote what, when
    lifeline  what ties an incarnation to it    trial      run, judge (`invariants`, `settled`), shrink, tell
    faulty_client, faulty_driver, faulty_store  the API server, CSI drivers and the disk, as they may fail
"""
