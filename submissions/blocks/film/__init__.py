"""FILM: sentences from a bag of words, by the observed language model's own judgement.

`language` (the observed model as a reader of sentences and beams), `norms` (gradient norms of many
sentences at once), `beam` (beam search over the bag), `reorder` (prior-guided reordering).
"""
