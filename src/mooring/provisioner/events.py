"""Texts of the provisioner's Kubernetes events, as templates: recorded here, looked up by `explain`.

Those of external-provisioner are kept byte for byte; VOLUME_HELD and SELECTED_NODE_CLEARED are Mooring's own.
"""

from typing import Final

PROVISIONING: Final = 'External provisioner is provisioning volume for claim "{claim}"'
EXTERNAL_POPULATOR: Final = "Assuming an external populator will provision the volume"
PROVISIONED: Final = "Successfully provisioned volume {volume}"
PROVISION_FAILED: Final = 'failed to provision volume with StorageClass "{storage_class}": {reason}'
INFEASIBLE: Final = "Volume provisioning failed with infeasible error. Retries will be delayed. {reason}"
RPC_ERROR: Final = "rpc error: code = {code} desc = {reason}"
TOPOLOGY_FAILED: Final = "error generating accessibility requirements: {reason}"
CSI_NODE_NOT_FOUND: Final = (
    'error getting CSINode for selected node "{node}": csinode.storage.k8s.io "{node_name}" not found'
)
NODE_NOT_FOUND: Final = 'error getting selected node "{node}": node "{node_name}" not found'
NO_TOPOLOGY_KEY: Final = "no topology key found for node {node}"

VOLUME_HELD: Final = "Volume {volume} provisioned; held until all volumes of the pod are available"
SELECTED_NODE_CLEARED: Final = "Selected node {node} cleared for rescheduling: {reason}"
