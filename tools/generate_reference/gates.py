"""The feature gates, from their table."""

from tools.generate_reference.tables import GENERATED, code, table

from mooring.control.feature_gates import BY_NAME


def gates_page() -> str:
    rows = [
        (
            code(gate.name),
            gate.stage.value,
            str(gate.default).lower() + (" (locked)" if gate.locked else ""),
            ", ".join(gate.components),
            gate.off,
        )
        for gate in sorted(BY_NAME.values(), key=lambda gate: gate.name)
    ]
    return (
        f"{GENERATED}\n# Feature gates\n\n"
        "You enable and disable features with `--feature-gates A=true,B=false` of every component. Give all components "
        "of a cluster the same gates; components that differ report it in the event `ComponentSkew` on their Lease.\n\n"
        + table(["gate", "stage", "default", "components", "when it is off"], rows)
    )
