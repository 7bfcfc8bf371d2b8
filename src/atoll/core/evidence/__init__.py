"""What sources say of a node, and the one machine that they make together, with who said what."""
