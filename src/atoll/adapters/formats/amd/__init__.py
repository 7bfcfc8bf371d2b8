"""What AMD's tools print, as text and as JSON."""
