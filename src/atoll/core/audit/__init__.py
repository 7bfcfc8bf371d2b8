"""The audit: from what could be seen of a cluster to ranked findings. Values in, values out."""
