"""One node's own corner of the API, as its agent sees it: its Node, the pods on it, its `GPUNode` and its Lease."""
