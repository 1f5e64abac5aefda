"""From whatever a stop has left to a store that may be written: no sound byte is removed."""
