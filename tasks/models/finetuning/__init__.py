"""Models of the `open` suite that are trained here, once, from published weights."""
