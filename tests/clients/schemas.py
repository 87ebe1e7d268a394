"""Validates manifests by the schemas that their projects publish: Kubernetes, KServe, and KEDA.

Keys that a schema does not have are errors, as with `kubectl apply --validate=strict`.
"""

import functools
import importlib
import re
import sys
import types
from pathlib import Path

import jsonschema
import kubernetes_validate
from kubernetes_validate.utils import schema_contents

VERSION = "1.37"
# What requirements-alone.txt names.
ALONE = str(Path(sys.prefix) / "alone")
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}


class Unfit(Exception):
    """What is wrong, and where."""


def validate(document):
    """Raise if a manifest does not fit its schema."""
    group = document["apiVersion"].partition("/")[0]
    if group == "serving.kserve.io":
        version = document["apiVersion"].partition("/")[2]
        typed(document, version.capitalize() + document["kind"], document["kind"])
        return
    try:
        if group == "keda.sh":
            of_keda(document["kind"]).validate(document)
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)
    except jsonschema.ValidationError as error:
        raise Unfit(f"{document['kind']} {error.json_path}: {error.message}") from None


def strict(schema):
    """A schema whose objects have no more keys than it names."""
    for each in [schema, *schema.get("$defs", {}).values()]:
        if "properties" in each:
            each["additionalProperties"] = False
    return schema


@functools.cache
def of_keda(kind):
    """The validator of a type of KEDA."""
    return validator(strict(getattr(keda(), kind).model_json_schema(by_alias=True)))


def validator(schema):
    """The validator of a schema, which is checked itself but once."""
    made = jsonschema.validators.validator_for(schema)
    made.check_schema(schema)
    return made(schema)


def keda():
    """The types of KEDA."""
    if ALONE not in sys.path:
        sys.path.append(ALONE)
    return importlib.import_module("cloudcoil.models.keda.v1alpha1")


def kserve():
    """The types of KServe's client, without the rest of it, which needs a hundred packages."""
    if "kserve" not in sys.modules:
        bare = types.ModuleType("kserve")
        bare.__path__ = [f"{ALONE}/kserve"]
        sys.modules["kserve"] = bare
    return importlib.import_module("kserve.models")


def typed(value, kind, place):
    """Check a value by what the client of KServe says of a type."""
    inner = re.fullmatch(r"(list|dict)[\[(](?:str, )?(\w+)[\])]", kind)
    model = getattr(kserve(), kind, None)
    if kind in PLAIN:
        fits = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        if not fits:
            raise Unfit(f"{place}: {value!r} is no {kind}")
    elif inner:
        if not isinstance(value, {"list": list, "dict": dict}[inner[1]]):
            raise Unfit(f"{place}: {value!r} is no {inner[1]}")
        for key, each in value.items() if inner[1] == "dict" else enumerate(value):
            typed(each, inner[2], f"{place}.{key}")
    elif model is not None and model.openapi_types:
        names = {key: name for name, key in model.attribute_map.items()}
        for key, each in value.items():
            if key not in names:
                raise Unfit(f"{place}.{key}: {kind} has no such key")
            typed(each, model.openapi_types[names[key]], f"{place}.{key}")
    elif core := re.fullmatch(r"V1([A-Z]\w+)", kind):
        of_kubernetes(value, core[1], place)
    # Quantities, which may be numbers and texts.


def of_kubernetes(value, kind, place):
    """Check a value by a type of Kubernetes."""
    definitions = kubernetes()
    ends = (f".core.v1.{kind}", f".meta.v1.{kind}")
    (found,) = [each for each in definitions.schema["$defs"] if each.endswith(ends)]
    named = definitions.evolve(schema={**definitions.schema, "$ref": f"#/$defs/{found}"})
    if error := jsonschema.exceptions.best_match(named.iter_errors(value)):
        raise Unfit(f"{place}{error.json_path[1:]}: {error.message}")


@functools.cache
def kubernetes():
    """The validator of the types of Kubernetes."""
    return validator(schema_contents(f"kubernetes-json-schema/v{VERSION}.0-local-strict/_definitions.json", VERSION))
