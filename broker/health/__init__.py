"""What goes wrong and how much goes through: faults, troubles, counters."""
