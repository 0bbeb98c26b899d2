"""One file per engine: what it keeps, rounds and reserves."""
