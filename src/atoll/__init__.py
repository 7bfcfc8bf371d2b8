"""Atoll keeps GPU islands whole: a pod gets its GPUs inside one topology domain, or waits and is told why."""
