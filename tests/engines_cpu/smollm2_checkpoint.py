"""A Hugging Face checkpoint of a GGUF file: ``python smollm2_checkpoint.py MODEL.gguf FOLDER``, where vLLM is."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.quantization_config import GgufConfig

source, target = Path(sys.argv[1]), Path(sys.argv[2])
where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
unpacked = GgufConfig(dequantize=True)  # quantised weights cannot be saved in this format
AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16, quantization_config=unpacked).save_pretrained(
    target
)
AutoTokenizer.from_pretrained(**where).save_pretrained(target)
