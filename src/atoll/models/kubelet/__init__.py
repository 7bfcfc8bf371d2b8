"""The kubelet, as far as it has a say in which GPUs a container gets: Topology Manager and device manager."""
