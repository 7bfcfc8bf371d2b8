"""Bytes as bounded text, JSON, YAML and XML that still know where everything stood. No reader opens a file itself."""
