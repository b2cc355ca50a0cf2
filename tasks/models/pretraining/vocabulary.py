"""The three tokenizers of the builtin models, each learned from public text."""

# mypy: disable-error-code="no-untyped-call"
# (transformers and torch leave some of the calls below unannotated)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

END_OF_TEXT = "<|endoftext|>"
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MARIAN_SPECIAL = ("<pad>", "</s>")
LETTERS = 64
"""How many letters and signs BERT's vocabulary knows; words with others become [UNK]."""


def gpt2_tokenizer(texts: Sequence[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE; a text stands between two end-of-text tokens."""
    tokenizer = _byte_level(texts, size, [END_OF_TEXT])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A {END_OF_TEXT}", special_tokens=[(END_OF_TEXT, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        model_max_length=128,
        clean_up_tokenization_spaces=False,
    )


def bert_tokenizer(texts: Sequence[str], size: int) -> PreTrainedTokenizerFast:
    """Lower-cased WordPiece; a text stands between [CLS] and [SEP]."""
    pieces = [*BERT_SPECIAL, *word_pieces(texts, size - len(BERT_SPECIAL))]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = _read_as_bert(Tokenizer(WordPiece(vocabulary, unk_token="[UNK]")))
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=128,
    )


def word_pieces(texts: Sequence[str], size: int) -> list[str]:
    """All common letters, then the most frequent pieces that BPE cuts the words into.

    The library's own WordPiece trainer breaks ties by hash order, so that two runs differ.
    """
    cutter = _read_as_bert(Tokenizer(BPE()))
    trainer = BpeTrainer(vocab_size=size, limit_alphabet=LETTERS, show_progress=False)
    cutter.train_from_iterator(texts, trainer)
    letters, counts = set[str](), Counter[str]()
    for word, times in _words(cutter, texts).items():
        tokens = cutter.encode(word).tokens
        if "".join(tokens) != word:
            continue  # it has a rare letter, and will be [UNK]
        letters.update([word[0], *(f"##{letter}" for letter in word[1:])])
        for piece in [tokens[0], *(f"##{token}" for token in tokens[1:])]:
            counts[piece] += times
    longer = sorted(counts.keys() - letters, key=lambda piece: (-counts[piece], piece))
    return [*sorted(letters), *longer][:size]


def _read_as_bert(tokenizer: Tokenizer) -> Tokenizer:
    """Lower case, no accents, split at blanks and punctuation."""
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _words(tokenizer: Tokenizer, texts: Sequence[str]) -> Counter[str]:
    normal = (tokenizer.normalizer.normalize_str(text) for text in texts)
    split = (tokenizer.pre_tokenizer.pre_tokenize_str(text) for text in normal)
    return Counter(word for words in split for word, _ in words)


def marian_tokenizer(texts: Sequence[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE over both languages; a sentence ends with `</s>`."""
    tokenizer = _byte_level(texts, size, list(MARIAN_SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        model_max_length=128,
        clean_up_tokenization_spaces=False,
    )


def _byte_level(texts: Sequence[str], size: int, special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
