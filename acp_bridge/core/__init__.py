"""The pure middle: what the bridge does, without I/O, clock or randomness."""
