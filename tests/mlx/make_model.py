"""The tiny trained model as MLX reads it: its stacked experts in 4 bits, the rest in float32, which a CPU multiplies
five times faster; or all of it in another type. Run by the Python that has mlx-lm: make_model.py SAFETENSORS OUT [TYPE]
"""

import sys

from mlx_lm.convert import convert


def is_expert(path: str, module: object) -> bool:
    return "switch_mlp" in path


source, out, kind = (*sys.argv[1:], "float32")[:3]
convert(source, out, quantize=kind == "float32", q_group_size=32, q_bits=4, dtype=kind, quant_predicate=is_expert)
