"""JSON Schema (draft 7), as far as our schemas use it. Another word is an error."""

from __future__ import annotations

import re


def fits_schema(schema, value):
    """Whether the value fits."""
    return fits_part(schema, value, schema)


def fits_part(schema, value, root):
    """Whether the value fits a part of the schema `root`."""
    known = {"$schema", "title", "description", "definitions", "type", "additionalProperties", "properties", "required"}
    assert schema.keys() <= known | {
        "anyOf",
        "allOf",
        "$ref",
        "items",
        "enum",
        "pattern",
        "minimum",
        "if",
        "then",
        "examples",
        "default",
    }
    if "$ref" in schema:
        return fits_part(root["definitions"][schema["$ref"].rpartition("/")[2]], value, root)
    types = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool}
    wanted = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if wanted and not any((value is None) if word == "null" else isinstance(value, types[word]) for word in wanted):
        return False
    rest = schema.get("additionalProperties", {})
    tables = isinstance(value, dict) and (
        any(key not in value for key in schema.get("required", []))
        or not all(
            fits_part(schema["properties"][key], part, root)
            if key in schema.get("properties", {})
            else rest is not False and fits_part(rest, part, root)
            for key, part in value.items()
        )
    )
    return not (
        tables
        or ("anyOf" in schema and not any(fits_part(part, value, root) for part in schema["anyOf"]))
        or ("allOf" in schema and not all(fits_part(part, value, root) for part in schema["allOf"]))
        or ("enum" in schema and value not in schema["enum"])
        or ("if" in schema and fits_part(schema["if"], value, root) and not fits_part(schema["then"], value, root))
        or ("pattern" in schema and not re.search(schema["pattern"], str(value)))
        or ("minimum" in schema and value < schema["minimum"])
        or (isinstance(value, list) and not all(fits_part(schema.get("items", {}), part, root) for part in value))
    )
