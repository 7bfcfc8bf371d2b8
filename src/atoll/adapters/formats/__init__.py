"""Every input that describes a machine or what runs on it: one module per format, and `read` that knows them all."""
