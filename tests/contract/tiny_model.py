"""A Llama of a few thousand random weights with a character tokenizer and a chat template, for tests of engines."""

from __future__ import annotations

import string
from pathlib import Path

END, PAD, BEGIN = "<|end|>", "<|pad|>", "<|begin|>"
CHARACTERS = string.ascii_letters + string.digits + " .,:;?!+-*/=#'\n"
TEMPLATE = (
    "{% for m in messages %}{{ '<|begin|>' + m['role'] + ':' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|begin|>assistant:' }}{% endif %}"
)


def make_tiny_model(folder: Path, seed: int = 0, max_positions: int = 96, is_tied: bool = True) -> Path:
    """Writes an ordinary Hugging Face folder; `seed` decides the weights and nothing else."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = [PAD, BEGIN, END, "<|unk|>", *CHARACTERS]
    vocabulary = {word: number for number, word in enumerate(words)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    raw.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=PAD, bos_token=BEGIN, eos_token=END, unk_token="<|unk|>"
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=max_positions,
        tie_word_embeddings=is_tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        # Wide enough for answers that differ from prompt to prompt.
        initializer_range=0.6,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
