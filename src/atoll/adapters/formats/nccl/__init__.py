"""The topology XML of NCCL and RCCL."""
