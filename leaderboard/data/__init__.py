"""Records and catalog as rows, ranked and ordered."""
