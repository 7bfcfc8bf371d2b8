"""What the kubelet keeps on the node and answers there: devices, CPUs, memory, its configuration."""
