"""`atoll audit`: what is seen of a cluster or of files, told in a terminal, as JSON, or as one HTML file."""
