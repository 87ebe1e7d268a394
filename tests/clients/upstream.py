"""The examples of tests/upstream as printed, and ways to fill in what they leave out."""

import json

from conftest import FIXTURES, ROOT

EXAMPLES = ROOT / "tests" / "upstream"


def printed(name):
    """An example as it is."""
    return (EXAMPLES / name).read_text()


def filled(text, *changes):
    """A text with changes, pairs of what it has and what is to stand there; the first place of each."""
    for old, new in changes:
        assert old in text, f"there is no {old!r} in:\n{text}"
        text = text.replace(old, new, 1)
    return text


def moved(text, old, new):
    """A text with a path or address of this machine for a printed one, wherever it is."""
    assert old in text, f"there is no {old!r} in:\n{text}"
    return text.replace(old, str(new))


def run(text, **names):
    """Run Python code with names that it expects; gives all that it knows in the end."""
    exec(compile(text, "<printed>", "exec"), names)
    return names


def link_model(fixture, base_path):
    """Let a model of the fixtures be found at a base path."""
    base_path.parent.mkdir(parents=True, exist_ok=True)
    base_path.symlink_to(FIXTURES / "models" / fixture)


class Workspace:
    """A folder in place of `/ovms/workspace` for each graph, and the printed configuration with all of them."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads(printed("python/config.json"))
        (self.entry,) = self.config["mediapipe_config_list"]
        self.config["mediapipe_config_list"] = []

    def add(self, name, graph, **handlers):
        """Write a graph and its handlers, and an entry as printed."""
        place = self.folder / name
        place.mkdir()
        (place / "graph.pbtxt").write_text(moved(graph, "/ovms/workspace", place))
        for handler, text in handlers.items():
            (place / f"{handler}.py").write_text(text)
        path = moved(self.entry["graph_path"], "/ovms/workspace", place)
        self.config["mediapipe_config_list"].append({**self.entry, "name": name, "graph_path": path})

    def write(self):
        """Write the configuration; gives its path."""
        path = self.folder / "config.json"
        path.write_text(json.dumps(self.config))
        return path
