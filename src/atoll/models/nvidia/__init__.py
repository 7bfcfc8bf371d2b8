"""NVIDIA's device plugin and its allocator: which GPUs it would prefer."""
