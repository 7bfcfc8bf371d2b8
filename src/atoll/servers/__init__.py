"""Inbound: bytes in, one typed call of a service, bytes out."""
