"""One file an attack: a class with metadata and `recover`. `random.py` is the shortest."""
