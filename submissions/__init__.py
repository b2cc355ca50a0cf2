"""Attacks and defenses, one file each, found by the registry; nothing here is a list of them."""
