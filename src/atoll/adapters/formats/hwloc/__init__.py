"""The XML of lstopo, of hwloc 1, 2 and 3."""
