"""Adapters to what people already work with: each module needs one framework, and no other."""
