"""Values in, values out: topology, domains, GPU sets, requests, verdicts, ledger. Nothing here acts."""
