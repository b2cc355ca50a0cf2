"""From a plan to records: attack runs, utility runs, and what each attack is told."""
