"""What a config file does not say, one row per family."""
