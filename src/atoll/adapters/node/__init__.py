"""The agent's own machine: its kubelet, the folders that the kubelet keeps, and the program that looks at its GPUs."""
