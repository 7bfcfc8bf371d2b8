"""What an unconfigured kube-scheduler would say of a pod on a node, one module per filter, told before it is asked."""
