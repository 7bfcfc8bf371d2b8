"""What the shim between a kubelet and its device plugins goes by, as values."""
