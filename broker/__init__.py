"""The broker: serves producers and consumers from one store."""
