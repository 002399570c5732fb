"""Messages as Google's protobuf reads them, with those fields that the readers look at."""

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"bytes": _FIELD.TYPE_BYTES, "int64": _FIELD.TYPE_INT64}
# Message: field: number and type, "*" for one that is repeated. Texts are bytes, too, here.
_MESSAGES = {
    "Onnx": {"graph": (7, "OnnxGraph")},
    "OnnxGraph": {"node": (1, "OnnxNode*"), "initializer": (5, "OnnxTensor*")},
    "OnnxNode": {
        "input": (1, "bytes*"),
        "output": (2, "bytes*"),
        "name": (3, "bytes"),
        "op_type": (4, "bytes"),
        "attribute": (5, "OnnxAttribute*"),
    },
    "OnnxAttribute": {"name": (1, "bytes"), "i": (3, "int64"), "t": (5, "OnnxTensor")},
    "OnnxTensor": {
        "dims": (1, "int64*"),
        "data_type": (2, "int64"),
        "name": (8, "bytes"),
        "raw_data": (9, "bytes"),
    },
    "SavedModel": {"meta_graphs": (2, "MetaGraph*")},
    "MetaGraph": {"graph_def": (2, "GraphDef")},
    "GraphDef": {"node": (1, "Node*"), "library": (2, "Library")},
    "Library": {"function": (1, "Function*")},
    "Function": {"node_def": (3, "Node*")},
    "Node": {"name": (1, "bytes"), "op": (2, "bytes"), "input": (3, "bytes*")},
}


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="f", syntax="proto2")
    for name, fields in _MESSAGES.items():
        fields_of_message = file.message_type.add(name=name).field
        for field_name, (number, kind) in fields.items():
            bare = kind.rstrip("*")
            fields_of_message.add(
                name=field_name,
                number=number,
                label=_FIELD.LABEL_OPTIONAL if bare == kind else _FIELD.LABEL_REPEATED,
                type=_TYPES.get(bare, _FIELD.TYPE_MESSAGE),
                type_name=None if bare in _TYPES else f".f.{bare}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def parsed(name: str, content: bytes) -> Any:
    """A message; None if it is none, or could be read in several ways.

    It could where a field that stands once is there twice, as protobuf merges those.
    """
    message_class = message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"f.{name}"))
    try:
        found = message_class.FromString(content)
    except message.DecodeError:
        return None
    return found if found.ByteSize() == len(content) else None
