"""Turns the loops of a model into one step with its state in variables.

The server writes this file into a folder of its own, with request.json beside
it, and runs it. It leaves result.json there and, if the model has loops,
model.xml and model.bin. What is wrong goes to stderr.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NO_PACKAGE = 3  # the exit code that says that `openvino` cannot be imported
LOOPS = ("Loop", "TensorIterator")


def loops(model):
    """The operators that iterate."""
    return [node for node in model.get_ops() if node.get_type_name() in LOOPS]


def iterations(node):
    """How often it iterates; -1 if that is not known before it runs."""
    try:
        return node.get_num_iterations()
    except AttributeError:
        return -1


def unroll(ov, passes, request):
    """Reads, changes and saves the model; returns what the server is to know."""
    core = ov.Core()
    if request["extension"]:
        core.add_extension(request["extension"])
    model = core.read_model(request["model"], request["weights"] or "")
    if not loops(model):
        return {"found": 0, "kept": []}

    # Loops go only if they iterate once, which depends on the shapes.
    shapes = {}
    for port, known in zip(model.inputs, request["inputs"]):
        if known["shape"] is not None:
            shapes[port] = ov.PartialShape(known["shape"])
    model.reshape(shapes)
    found = len(loops(model))

    manager = passes.Manager()
    # Not with zeros in place of what the loops begin with.
    manager.register_pass(passes.LowLatency2(use_const_initializer=False))
    manager.run_passes(model)
    model.validate_nodes_and_infer_types()

    # Names from inside of the loops have been added to inputs and outputs.
    for ports, known in ((model.inputs, "inputs"), (model.outputs, "outputs")):
        for port, tensor in zip(ports, request[known], strict=True):
            port.get_tensor().set_names({tensor["name"]})

    kept = [
        {"name": node.get_friendly_name(), "iterations": iterations(node)}
        for node in loops(model)
    ]
    ov.save_model(model, HERE / "model.xml", compress_to_fp16=False)
    return {"found": found, "kept": kept}


def run(request):
    """Does what the server asks for; returns the exit code."""
    try:
        import openvino as ov
        from openvino import passes

        passes.LowLatency2
    except Exception as error:  # a library that does not load is no ImportError
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return NO_PACKAGE
    try:
        result = unroll(ov, passes, request)
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    (HERE / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


def is_running(process):
    """Returns whether there is a process of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def main():
    """Does what request.json says; returns the exit code."""
    request = json.loads((HERE / "request.json").read_text(encoding="utf-8"))
    # The server ends this process when it has run for too long, and removes the
    # folder. If the server is gone, nobody else does.
    signal.alarm(request["seconds"])
    try:
        return run(request)
    finally:
        if not is_running(request["server"]):
            shutil.rmtree(HERE, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
