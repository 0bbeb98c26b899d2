"""Where files come from: the Hub, a folder, a file, a snapshot."""
