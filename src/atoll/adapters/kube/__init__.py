"""Kubernetes: raw JSON becomes core values here, core values become requests, and nothing is decided."""
