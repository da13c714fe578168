"""A mooring component under cProfile: `python -m bench.kube.profiled FILE mooring scheduler ...`.

By processor time: others use the same cores, and what they take is none of the component's cost.
"""

import cProfile
import sys
import time


def main() -> None:
    file, _, *command = sys.argv[1:]
    from mooring.cli.main import main as mooring

    sys.argv = ["mooring", *command]
    profile = cProfile.Profile(time.process_time)
    try:
        profile.runcall(mooring)
    finally:
        profile.dump_stats(file)


if __name__ == "__main__":
    main()
