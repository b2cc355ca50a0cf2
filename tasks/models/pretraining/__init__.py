"""How the builtin models were made; run by `python -m tasks.models.train`."""
