"""Where the observed models and the priors come from, and how they are opened."""
