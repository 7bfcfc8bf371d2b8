"""What an audit reads of a cluster: objects of the API, live or from files, as one picture. Nothing here writes."""
