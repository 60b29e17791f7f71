"""Takes over what other bridges recorded. Only reads their files."""
