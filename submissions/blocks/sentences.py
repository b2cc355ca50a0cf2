"""What frames a sentence: its length, and the special tokens at its ends."""

from __future__ import annotations

from benchmark.spec import Observation, Public, Role


def sentence_lengths(observation: Observation) -> tuple[int, ...]:
    """Known lengths; else the longest one, read off the position embeddings; else the maximum."""
    if observation.lengths is not None:
        return observation.lengths
    longest = observation.public.max_tokens
    positions = observation.gradient(Role.POSITION_EMBEDDING)  # (positions, D)
    if positions is not None:
        noise = 2 * (observation.update.noise_scale or 0.0) * positions.shape[1] ** 0.5
        used = (positions.norm(dim=1) > noise).nonzero().flatten()
        # A language model's last token predicts nothing, so its position gets no gradient.
        unseen = 1 if observation.public.objective.name == "causal-lm" else 0
        seen = int(used.max()) + 1 - first_position(observation.public) if len(used) else longest
        longest = min(longest, max(1, seen + unseen))
    return (longest,) * observation.batch_size


def first_position(public: Public) -> int:
    """Row of the position embeddings that a first token reads: RoBERTa's and OPT's is not 0."""
    name = public.roles.names[Role.POSITION_EMBEDDING]
    module = public.model.get_submodule(name.rpartition(".")[0])
    padding, offset = getattr(module, "padding_idx", None), getattr(module, "offset", 0)
    return int(offset) if padding is None else int(padding) + 1


def special_tokens(public: Public) -> tuple[list[int], list[int]]:
    """Ids before and after every text, as the task's objective encodes it."""
    tokenizer = public.tokenizer
    if public.objective.name == "classification":
        ids = list(tokenizer("a").input_ids)
        plain = list(tokenizer("a", add_special_tokens=False).input_ids)
        places = range(len(ids) - len(plain) + 1)
        start = next(i for i in places if ids[i : i + len(plain)] == plain)
        return ids[:start], ids[start + len(plain) :]
    end = tokenizer.eos_token_id
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else end
    if start is None:
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    return ([] if start is None else [start]), ([] if end is None else [end])
