"""The kubelet's device plugin interface, v1beta1: its messages, plugins behind the shim, and the kubelet before it."""
