# Reads and writes safetensors files: name -> numpy array. BF16 comes as float32, which holds it exactly.
import json
import struct

import numpy

DTYPES = {"F32": numpy.float32, "F64": numpy.float64, "I32": numpy.int32, "I64": numpy.int64, "BF16": numpy.uint16}


def load(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(content[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (values.astype(numpy.uint32) << 16).view(numpy.float32) if entry["dtype"] == "BF16" else values
    return tensors


def save(path, tensors):
    names = {numpy.dtype(kind): name for name, kind in DTYPES.items() if name != "BF16"}
    header, begin = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": names[tensor.dtype], "shape": tensor.shape, "data_offsets": [begin, begin + tensor.nbytes]}
        begin += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(tensor.tobytes() for tensor in tensors.values()))
