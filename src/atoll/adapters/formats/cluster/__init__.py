"""What others write into the API of a node's GPUs, and what exporters measure of them."""
