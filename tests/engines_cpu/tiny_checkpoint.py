"""A tiny Llama with random weights and a tokenizer of bytes: ``python tiny_checkpoint.py FOLDER``, where SGLang is."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

folder = sys.argv[1]
torch.manual_seed(0)
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(SPECIAL)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1])
fast.chat_template = TEMPLATE
config = LlamaConfig(
    vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id,
)  # fmt: skip
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
fast.save_pretrained(folder)
