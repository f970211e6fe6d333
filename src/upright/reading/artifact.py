"""A path, a repository or a catalogue name -> Model."""

from __future__ import annotations

from math import prod
from pathlib import Path

from upright.errors import ReadError
from upright.reading import gguf
from upright.reading.blobs import Blob, LocalBlob, Window
from upright.reading.gguf_keys import architecture
from upright.reading.ledger import Ledger
from upright.reading.names import gguf_namer
from upright.reading.tensors import account
from upright.records.model import Model

_FIRST_BYTES = 1 << 20


def read(source: str) -> Model:
    """Everything about a model that its headers say; the weights themselves are not read."""
    path = Path(source).expanduser()
    if not path.exists():
        raise ReadError(f"no such file: {source}", hint="name a GGUF file, a model directory or a repository")
    return _read_gguf(source, path)


def _read_gguf(source: str, path: Path) -> Model:
    blobs: list[Blob] = [LocalBlob(path)]
    headers = [gguf.parse(Window(blob, _FIRST_BYTES)) for blob in blobs]
    files = tuple(account(blob.name, blob.size_bytes, header) for blob, header in zip(blobs, headers, strict=True))
    metadata = headers[0].metadata
    built = architecture(metadata, blobs[0].name)
    namer, ledger, ik_only = gguf_namer(built.layers), Ledger(), False
    ik_types = {kind.name for kind in gguf.ggml_types().values() if kind.ik_only}
    for header in headers:
        for tensor in header.tensors:
            place = namer.place(tensor.name)
            size_bytes = tensor.end - tensor.start
            key = (place.group, place.layer, tensor.dtype)
            ledger.add(key, tensors=1, parameters=prod(tensor.shape), bytes=size_bytes)
            if not place.known:
                ledger.note_unknown(tensor.name, bytes=size_bytes)
            ik_only = ik_only or tensor.dtype in ik_types
    name = metadata.get("general.name")
    return Model(
        name=name if isinstance(name, str) and name else path.stem,
        source=source,
        format="gguf",
        basis="read",
        architecture=built,
        files=files,
        weights=ledger.lines(),
        chat_template=isinstance(metadata.get("tokenizer.chat_template"), str),
        ik_only=ik_only,
        path=str(path),
        unknown=ledger.unknown(),
    )
