"""The one place that knows services, adapters and servers: each long-running program put together."""
