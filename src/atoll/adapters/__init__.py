"""Outbound: one folder or module per outside system. They translate at the edge and decide nothing."""
