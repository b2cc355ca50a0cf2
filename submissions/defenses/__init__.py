"""One file a defense: a class with metadata and `client_update` or `transform`."""
