"""Loads handler files; in workers of a server, and nowhere else.

Each handler has a `Space`: a package of its own, with a name that nobody else has, whose folder is
that of the handler file. The handler and the modules beside it are loaded as modules of that
package, from their sources. Their `import` statements look there first, so that modules of the same
name in different folders are different modules, also when they are imported late.
"""

import ast
import builtins
import codecs
import difflib
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import os
import re
import sys
import threading
import traceback
import types

PREFIX = "_ovms_handler_"
HANDLER = "__handler__"
SPAWN = "multiprocessing.spawn"

# Never looked for beside a handler.
STANDARD = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names) | {"pyovms"}

# One import phase at a time, because it changes `sys.path`.
_lock = threading.RLock()
_count = 0
_spaces = {}
# The spaces whose handlers are being loaded by a thread, innermost last.
_stage = threading.local()
_import = builtins.__import__
_import_module = importlib.import_module


class Source(importlib.machinery.SourceFileLoader):
    """Compiles the file as it is, whatever was compiled before."""

    def __init__(self, name, path, space):
        super().__init__(name, path)
        self._space = space

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module):
        module.__dict__["__builtins__"] = self._space.builtins
        super().exec_module(module)


class HandlerSource(Source):
    """Runs the handler file itself, as what a load begins with."""

    def exec_module(self, module):
        with _lock, _Stage(self._space):
            # An object of its own, so that the one to remove is known.
            entry = _Entry(self._space.folder)
            sys.path.append(entry)
            try:
                super().exec_module(module)
            finally:
                for index, path in enumerate(sys.path):
                    if path is entry:
                        del sys.path[index]
                        break


class Space:
    """The modules of one handler."""

    def __init__(self, path, name=None):
        global _count
        if name is None:
            with _lock:
                _count += 1
                name = f"{PREFIX}{_count}"
        self.name = name
        self.path = path
        self.folder = os.path.dirname(path)
        self.own = os.path.basename(path).removesuffix(".py")
        self.finders = {}
        self.known = {}
        self.builtins = dict(builtins.__dict__)
        self.builtins["__import__"] = self.import_
        package = types.ModuleType(self.name, "Modules of one handler.")
        package.__path__ = [self.folder]
        package.__spec__ = importlib.machinery.ModuleSpec(self.name, None, is_package=True)
        package.__spec__.submodule_search_locations = package.__path__
        sys.modules[self.name] = package
        _spaces[self.name] = self

    # Looking for modules.

    def spec(self):
        """Returns the spec of the module of the handler file."""
        name = f"{self.name}.{HANDLER}"
        loader = HandlerSource(name, self.path, self)
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)

    def find_own(self, fullname):
        """Finds the module of the handler file, also by the name of the file, where it has not been run yet: in
        processes that others have started."""
        name = fullname[len(self.name) + 1:]
        if name == HANDLER:
            return self.spec()
        if name == self.own and self.has(name):
            return importlib.machinery.ModuleSpec(fullname, _Alias(f"{self.name}.{HANDLER}"))
        return None

    def find(self, fullname, folders):
        """Finds a module of the package in folders."""
        for folder in folders:
            finder = self.finders.get(folder)
            if finder is None:
                finder = self.finders[folder] = importlib.machinery.FileFinder(
                    folder,
                    (
                        importlib.machinery.ExtensionFileLoader,
                        importlib.machinery.EXTENSION_SUFFIXES,
                    ),
                    (lambda name, path: Source(name, path, self), [".py"]),
                )
            spec = finder.find_spec(fullname)
            if spec is not None:
                return spec
        return None

    def has(self, top):
        """Returns whether a name means a module beside the handler."""
        found = self.known.get(top)
        if found is None:
            if top in STANDARD or top == "__main__" or top.startswith(PREFIX):
                found = False
            elif f"{self.name}.{top}" in sys.modules:
                found = True
            else:
                spec = self.find(f"{self.name}.{top}", [self.folder])
                if spec is None:
                    if top not in sys.modules:
                        # Not remembered: it may be written later.
                        return False
                    found = False
                elif spec.loader is None or top == self.own or _is_handler(spec.origin):
                    # A folder without code, or a handler: only if nothing is installed.
                    found = not _installed(top, self.folder)
                else:
                    found = True
            self.known[top] = found
        return found

    # Importing them.

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        """Imports for a statement in the modules of the handler."""
        if level == 0 and isinstance(name, str):
            top = name.partition(".")[0]
            if top and self.has(top):
                try:
                    if fromlist:
                        return _import(f"{self.name}.{name}", globals, locals, fromlist, 0)
                    module = _import_module(f"{self.name}.{name}")
                except ModuleNotFoundError as error:
                    self.rename(error)
                    raise
                if type(fromlist) is list:
                    # Not a statement but the interface for C, such as that of pickle, which then
                    # looks for the module under its plain name.
                    self.alias(name, module)
                return sys.modules[f"{self.name}.{top}"]
        return _import(name, globals, locals, fromlist, level)

    def rename(self, error):
        """Puts the name that the handler knows into an error."""
        mine = self.name + "."
        if isinstance(error.name, str) and error.name.startswith(mine):
            error.name = error.name[len(mine):]
            error.msg = str(error.msg).replace(mine, "")

    def alias(self, name, module):
        """Lets a module be found under its plain name, if no other module has that."""
        known = sys.modules.get(name)
        if known is None:
            if _installed(name.partition(".")[0], self.folder):
                return
        elif not _real(known).startswith(PREFIX):
            return
        sys.modules[name] = module

    # The steps of a load.

    def run(self):
        """Runs the handler file; returns the class or None."""
        importlib.invalidate_caches()
        spec = self.spec()
        module = importlib.util.module_from_spec(spec)
        inside = self.folder.rstrip(os.sep) + os.sep
        for file in [file for file in list(linecache.cache) if file.startswith(inside)]:
            linecache.cache.pop(file, None)
        sys.modules[spec.name] = module
        if self.has(self.own):
            # A helper may import the handler by its file's name.
            sys.modules[f"{self.name}.{self.own}"] = module
        spec.loader.exec_module(module)
        return module.__dict__.get("OvmsPythonModel")

    def call(self, function, *arguments):
        """Calls what belongs to the load."""
        with _Stage(self):
            return function(*arguments)

    def close(self):
        """Forgets the modules."""
        _spaces.pop(self.name, None)
        mine = self.name + "."
        for name, module in list(sys.modules.items()):
            if name == self.name or name.startswith(mine) or _real(module).startswith(mine):
                sys.modules.pop(name, None)
        self.finders.clear()
        self.known.clear()


class _Entry(str):
    """An entry of `sys.path`."""

    __slots__ = ()


class _Stage:
    """Lets a thread's imports by name, such as those of pickle, find the modules of a handler."""

    def __init__(self, space):
        self.space = space

    def __enter__(self):
        stack = _stage.__dict__.setdefault("spaces", [])
        stack.append(self.space)

    def __exit__(self, *_):
        _stage.spaces.pop()
        # What was found by a plain name is forgotten under that name: it belongs to one handler.
        mine = self.space.name + "."
        inside = self.space.folder.rstrip(os.sep) + os.sep
        for name, module in list(sys.modules.items()):
            if name.startswith(PREFIX):
                continue
            if _real(module).startswith(mine) or self.is_beside(name, module, inside):
                sys.modules.pop(name, None)

    def is_beside(self, name, module, inside):
        """Returns whether a module that came by its plain name is one from beside the handler."""
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.startswith(inside):
            return False
        top = name.partition(".")[0]
        first = file[len(inside):].partition(os.sep)[0]
        if first != top and not first.startswith(top + "."):
            return False
        return not _installed(top, self.space.folder)


def _real(module):
    """Returns the name under which a module was loaded."""
    name = getattr(getattr(module, "__spec__", None), "name", None)
    return name if isinstance(name, str) else ""


class _Finder:
    """Finds the modules of handlers under their full names, and for a thread that loads a handler
    those beside it under their plain ones."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname.startswith(PREFIX):
            space = _spaces.get(fullname.partition(".")[0])
            if space is None or path is None:
                return None
            return space.find_own(fullname) or space.find(fullname, path)
        if fullname == SPAWN:
            return _find_spawn(path)
        stack = _stage.__dict__.get("spaces")
        if not stack:
            return None
        space = stack[-1]
        if path is not None and not any(str(item).startswith(space.folder) for item in path):
            return None
        top = fullname.partition(".")[0]
        if not space.has(top) or _installed(top, space.folder):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(f"{space.name}.{fullname}"))


class _Alias:
    """Gives a module of a handler under its plain name."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        module = _import_module(self.real)
        self.spec = module.__spec__
        self.loader = getattr(module, "__loader__", None)
        return module

    def exec_module(self, module):
        # The machinery has written the plain name into it.
        module.__spec__ = self.spec
        module.__loader__ = self.loader


def _is_handler(path):
    """Returns whether a file has the class of a handler."""
    if not isinstance(path, str) or not path.endswith(".py"):
        return False
    try:
        with open(path, "rb") as file:
            return b"class OvmsPythonModel" in file.read()
    except OSError:
        return False


def _installed(top, folder):
    """Returns whether a module of that name is somewhere else than in a folder."""
    paths = [path for path in sys.path if isinstance(path, str) and os.path.abspath(path) != folder]
    try:
        spec = importlib.machinery.PathFinder.find_spec(top, paths)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and spec.loader is not None


def _module(name, package=None):
    """`importlib.import_module`, which looks beside the handler that calls it."""
    if not name.startswith("."):
        own = sys._getframe(1).f_globals.get("__builtins__")
        if isinstance(own, dict):
            space = getattr(own.get("__import__"), "__self__", None)
            if isinstance(space, Space) and space.has(name.partition(".")[0]):
                return _import_module(f"{space.name}.{name}")
    return _import_module(name, package)


_module.__name__ = _module.__qualname__ = "import_module"
importlib.import_module = _module
sys.meta_path.insert(0, _Finder)


def _find_spawn(path):
    """Finds the module of `multiprocessing` that starts processes without a fork, which hands them the spaces."""
    spec = importlib.machinery.PathFinder.find_spec(SPAWN, path)
    if spec is not None and spec.loader is not None:
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _hand_on_spaces(module)

        spec.loader.exec_module = exec_module
    return spec


def _hand_on_spaces(spawn):
    """Has the processes that `multiprocessing` starts find the modules of the handlers of this one."""
    get = spawn.get_preparation_data

    @functools.wraps(get)
    def get_preparation_data(name):
        data = get(name)
        if data.get("init_main_from_name") == "pyovms.worker":
            # Nothing of a handler is there.
            del data["init_main_from_name"]
        data["sys_path"] = [str(path) if isinstance(path, str) else path for path in data["sys_path"]]
        data["pyovms"] = _Inherited(data["sys_path"])
        return data

    spawn.get_preparation_data = get_preparation_data


class _Inherited:
    """The spaces of this process, which are those of another one when that has unpickled this."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        # `pyovms` itself may be found by this path alone, which is set only later.
        code = "import sys; sys.path = path; from pyovms.loading import adopt; adopt(spaces)"
        return exec, (code, {"path": self._path, "spaces": {name: space.path for name, space in _spaces.items()}})


def adopt(spaces):
    """Makes the spaces of the process that has started this one, given as names with paths."""
    for name, path in spaces.items():
        if name not in _spaces:
            Space(path, name)


if SPAWN in sys.modules:
    _hand_on_spaces(sys.modules[SPAWN])


def _cut(text, most):
    """Shortens a text; what UTF-8 cannot encode is escaped."""
    more = len(text) - most
    if more > 0:
        text = f"{text[:most]}… ({more} more characters)"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# What the name of a module of a handler begins with, which its author has not written.
_given = re.compile(rf"{PREFIX}\d+\.(?:{HANDLER}\.)?")


def describe(error, trace, space, most_message, most_traceback):
    """Returns the type, the message and the traceback of an exception, and the line of the handler where it passed."""
    kind = type(error).__name__
    try:
        message = str(error)
    except BaseException as inner:
        message = f"<its str() raised {type(inner).__name__}>"
    try:
        report = traceback.TracebackException(type(error), error, trace, limit=-40)
        _without_ours(report)
        text = "".join(report.format())
    except BaseException as inner:
        text = f"<the traceback cannot be formatted: {type(inner).__name__}>"
    line = 0
    if space is not None:
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == space.path:
                line = trace.tb_lineno or 0
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename == space.path:
            line = error.lineno or 0
    message, text = (_given.sub("", _cut(it, most)) for it, most in ((message, most_message), (text, most_traceback)))
    return _cut(kind, 200), message, text, line


def _without_ours(report):
    """Leaves out the frames of what loads handlers, which their authors need not see."""
    # Chains may be longer than Python calls itself.
    left = [report]
    while left:
        report = left.pop()
        report.stack[:] = [
            frame
            for frame in report.stack
            if frame.filename != __file__ and not frame.filename.startswith("<frozen importlib")
        ]
        inner = (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ()))
        left += [it for it in inner if it is not None]


# Methods of a handler with what the server gives them.
METHODS = {
    "__init__": (),
    "initialize": ("kwargs",),
    "execute": ("inputs",),
    "create_state": (),
    "destroy_state": ("state",),
    "finalize": (),
}


def misfits(handler, space):
    """Returns the methods of a class that cannot be called as the server calls them: each with what it is, what it
    should be, and its file and line. A method whose signature cannot be got is none of them."""
    found = []
    has_state = callable(getattr(handler, "create_state", None))
    for name, given in METHODS.items():
        if name.endswith("_state") and not has_state:
            # Neither is called then.
            continue
        named = {"state": None} if name == "execute" and has_state else {}
        try:
            seen = _misfit(handler, name, given, named, space)
        except Exception:
            # Whatever that is, a call shows whether it works.
            continue
        if seen is not None:
            expected = f"def {name}({', '.join(('self', *given, *named))})"
            found.append((name, seen[0], expected, *seen[1:]))
    return found


def _misfit(handler, name, given, named, space):
    method = inspect.getattr_static(handler, name, _misfit)
    if method is _misfit:
        return None
    bound = (None,)
    if isinstance(method, (staticmethod, classmethod)):
        bound = () if isinstance(method, staticmethod) else bound
        method = method.__func__
    if not isinstance(method, types.FunctionType):
        if callable(method) or hasattr(method, "__get__") or name == "destroy_state":
            return None
        kind = type(method).__name__
        text = f"{name} is {kind if method is None else 'of type ' + kind}"
        return _cut(text, 200), space.path, _assigned(space.path, name)
    if hasattr(method, "__signature__"):
        return None
    signature = inspect.signature(method, follow_wrapped=False)
    # Nobody awaits what they return.
    is_async = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
    try:
        signature.bind(*bound, *given, **named)
        if not is_async:
            return None
    except TypeError:
        pass
    plain = [
        parameter.replace(
            annotation=parameter.empty,
            default=parameter.empty if parameter.default is parameter.empty else _default,
        )
        for parameter in signature.parameters.values()
    ]
    text = f"{'async ' if is_async else ''}def {name}{inspect.Signature(plain)}"
    code = method.__code__
    return _cut(text, 200), _cut(code.co_filename, 4096), _defined(code)


def strays(handler, space):
    """Returns the methods of a class that have nearly the name of one that it does not have and the server would call:
    that name with what there is, what it should be, and its file and line."""
    found = []
    lacked = {_plain(name): name for name in METHODS if name != "__init__" and not hasattr(handler, name)}
    own = [vars(base) for base in handler.__mro__ if base is not object]
    for name in dict.fromkeys(name for names in own for name in names):
        method = inspect.getattr_static(handler, name, None)
        method = getattr(method, "__func__", method)
        if name.startswith("_") or name in METHODS or not isinstance(method, types.FunctionType):
            continue
        plain = _plain(name)
        # One with a word more is a name of its own, such as `is_initialized`.
        near = [it for it in difflib.get_close_matches(plain, lacked, 1, 0.85) if abs(len(it) - len(plain)) < 3]
        if near:
            meant = lacked[near[0]]
            kind = "async def" if inspect.iscoroutinefunction(method) else "def"
            expected = f"def {meant}({', '.join(('self', *METHODS[meant]))})"
            code = method.__code__
            found.append((meant, _cut(f"{kind} {name}", 200), expected, _cut(code.co_filename, 4096), _defined(code)))
    return found


def _plain(name):
    """Returns a name without what people write differently in it."""
    return name.replace("_", "").lower().replace("ise", "ize")


class _Default:
    """Stands for a default, whose own text may be long."""

    def __repr__(self):
        return "…"


_default = _Default()


def _defined(code):
    """Returns the line of the `def` of a function, which is behind its decorators."""
    line = code.co_firstlineno
    while text := linecache.getline(code.co_filename, line):
        if text.lstrip().startswith(("def ", "async def ")):
            return line
        line += 1
    return code.co_firstlineno


def _assigned(path, name):
    """Returns the line where the class of a handler gets something else by a name; 0 if it is not seen."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == "OvmsPythonModel":
            for inner in statement.body:
                targets = getattr(inner, "targets", None) or [getattr(inner, "target", None)]
                if any(isinstance(it, ast.Name) and it.id == name for it in targets):
                    return inner.lineno
    return 0


def leave(error):
    """Ends this process as Python ends a program that has come to its end, or to an exception that nobody handles."""
    status = 0 if error is None else 1
    try:
        if not isinstance(error, SystemExit):
            if error is not None:
                sys.excepthook(type(error), error, error.__traceback__)
        elif error.code is None or isinstance(error.code, int):
            status = error.code or 0
        else:
            print(error.code, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(status & 0xFF)


# Whether this process has the terminal of a command that logs nothing and has no report.
shows_raised = False


def show(text):
    """Shows the traceback of a call to the author of the handler, if nobody else does."""
    if shows_raised:
        sys.stderr.write(text)


def node_of_threads(node):
    """Has each thread belong to the node whose code has started it, where it runs no code of a call. Returns a function
    like the given one, which returns the node of the thread that runs it."""
    start = threading.Thread.start

    def own():
        return node() or getattr(threading.current_thread(), "_ovms_node", "")

    @functools.wraps(start)
    def started(thread):
        thread._ovms_node = own()
        start(thread)

    threading.Thread.start = started
    return own


# Of a piece of a line: what a pipe takes as a whole.
MAX_PIECE = 3500


class Rest:
    """The piece of a line that a thread has written without its end."""

    __slots__ = ("_emit", "decoder", "lock", "node", "text")

    def __init__(self, emit):
        self._emit = emit
        self.node = self.text = ""
        # Of bytes, once there are any: the last of them may be a piece of a character.
        self.decoder = None
        # The end of the worker, which writes what is left, waits for a thread that does so itself.
        self.lock = threading.RLock()

    def flush(self):
        with self.lock:
            text, self.text = self.text, ""
            if text:
                self._emit(_cut(text, 16384), self.node)

    def end(self):
        """Writes what there is, also a piece of a character."""
        with self.lock:
            if self.decoder is not None:
                self.text += self.decoder.decode(b"", True)
                self.decoder = None
            self.flush()


class ThreadEnd:
    """Writes what a thread has begun when that ends, and with it what it has of its own."""

    __slots__ = ("_rest", "_rests")

    def __init__(self, rest, rests):
        self._rest, self._rests = rest, rests
        rests.add(rest)

    def __del__(self):
        self._rest.end()
        self._rests.discard(self._rest)


# Those of this process, none without a server.
lines_in_use = []


def flush_rests():
    """Writes what this thread has begun; at the end of each call, so that nothing is done where that is nothing."""
    for lines in lines_in_use:
        rest = getattr(lines._local, "rest", None)
        if rest is not None and (rest.text or rest.decoder is not None):
            try:
                rest.end()
            except OSError:
                # Nobody is left to read it, and the call is what it was.
                pass


class Lines(io.TextIOBase):
    """A stream that writes whole lines to a descriptor, each behind the name of the node that has printed it. Calls
    `begin` when a thread has written something without a line end."""

    encoding = "utf-8"
    errors = "backslashreplace"
    line_buffering = True
    mode = "w"

    def __init__(self, descriptor, node, begin=lambda: None):
        self._descriptor = descriptor
        self._node = node
        self._begin = begin
        self._local = threading.local()
        self._rests = set()
        self.name = "<stderr>" if descriptor == 2 else "<stdout>"
        self.buffer = LineBytes(self)
        lines_in_use.append(self)

    def writable(self):
        return True

    def fileno(self):
        return self._descriptor

    def reconfigure(self, *, encoding=None, errors=None, newline=None, line_buffering=None, write_through=None):
        """Changes nothing: a log has whole lines of UTF-8."""

    def detach(self):
        self.flush()
        return self.buffer

    def write(self, text):
        rest = self._own()
        node = self._node()
        with rest.lock:
            *lines, rest.text = (rest.text + text).split("\n")
            rest.node = node
            for line in lines:
                self._emit(_cut(line, 16384), node)
            if len(rest.text) > 16384:
                rest.flush()
            if rest.text or rest.decoder is not None:
                self._begin()
        return len(text)

    def flush(self):
        self._own().flush()

    def flush_all(self):
        """Writes what any thread has begun."""
        while True:
            try:
                rests = list(self._rests)
                break
            except RuntimeError:  # A thread has begun to write meanwhile.
                continue
        for rest in rests:
            rest.end()

    def _own(self):
        rest = getattr(self._local, "rest", None)
        if rest is None:
            rest = self._local.rest = Rest(self._emit)
            self._local.end = ThreadEnd(rest, self._rests)
        return rest

    def _emit(self, line, node):
        data = line.encode("utf-8", "backslashreplace")
        head = f"\x1e{node}\x1f".encode()
        start = 0
        while start < len(data) or not start:
            end = start + MAX_PIECE
            # Not within a character.
            while end < len(data) and data[end] & 0xC0 == 0x80:
                end -= 1
            piece = head + data[start:end] + b"\n"
            start = end
            while piece:
                piece = piece[os.write(self._descriptor, piece):]


class LineBytes(io.BufferedIOBase):
    """The same stream for bytes, those of UTF-8."""

    mode = "wb"

    def __init__(self, lines):
        self._lines = lines
        self.name = lines.name

    def writable(self):
        return True

    def fileno(self):
        return self._lines.fileno()

    def write(self, data):
        data = bytes(memoryview(data))
        rest = self._lines._own()
        with rest.lock:
            if rest.decoder is None:
                rest.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
            self._lines.write(rest.decoder.decode(data))
        return len(data)

    def flush(self):
        self._lines.flush()

    def close(self):
        """Leaves it open for others: one that wraps it closes it."""
        self.flush()
