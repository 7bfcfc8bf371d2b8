"""What `nvidia-smi` prints, read and written: `topo -m`, `topo -mp`, `-L`, and its failures."""
