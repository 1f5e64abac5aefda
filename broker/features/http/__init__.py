"""The broker's HTTP side: health, metrics and a JSON view for people and scripts."""
