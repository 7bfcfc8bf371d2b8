"""`atoll demo`: a small simulated cluster, the story that is played on it, and how it is shown."""
