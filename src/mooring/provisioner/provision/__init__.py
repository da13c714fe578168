"""CreateVolume and DeleteVolume for claims and volumes of one CSI driver."""
