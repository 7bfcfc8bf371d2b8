"""`atoll topology`: one file per verb, and what a topology looks like as a document and in a terminal."""
