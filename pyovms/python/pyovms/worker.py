"""Starts the workers of a server: `python -m pyovms.worker DESCRIPTOR`, with a socket to the server.

The process that the server starts is a keeper, and forks another one, which imports what most handlers need, once, and
forks a worker for each that the server asks for. Both adopt what their descendants leave behind, and kill all of them
when the server or the other one of them has ended, however that comes: whatever is killed, one is left to do so.
"""

import atexit
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time

from . import _pyovms

# Of a request.
MAX_REQUEST = 1 << 16

# Seconds in which processes that clean up may end by themselves, when the server ends and when a worker alone has, and
# between two looks at them.
CLEANING, CLEANING_BESIDE = 1, 10
PAUSE, PAUSE_BESIDE = 0.01, 0.1


def main(descriptor):
    # As in an interpreter within a server: a handler that looks at the command line finds nothing that is not for it.
    sys.argv[:] = [""]
    try:
        # `-P` has left it out, since it comes before the packages of the environment otherwise.
        sys.path.append(os.getcwd())
    except OSError:
        # It has been removed, and nothing can be imported from there.
        pass
    # Nothing else of the server is for handlers.
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 1 << 20)
    os.set_inheritable(descriptor, False)
    group = os.getpgrp()
    keeper = keep(descriptor)
    control = socket.socket(fileno=descriptor)
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Those of a terminal are for the server, which ends this.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    stay_at_term()
    from . import loading  # noqa: F401

    # An import that does not end sees no other end; nothing is forked before it.
    _pyovms._signal_at_parents_end(signal.SIGKILL)
    try:
        importlib.import_module("numpy")
    except Exception:
        # A handler that needs it fails with the reason.
        pass
    # From here on it wakes this process.
    _pyovms._signal_at_parents_end(signal.SIGCHLD)
    gc.collect()
    gc.freeze()
    try:
        serve(control, wake, woken, group, keeper)
    finally:
        end()


def keep(descriptor):
    """Forks the process that goes on, with the number of this one; this one is the keeper of what comes of it, and
    never returns."""
    _pyovms._adopt()
    # Whoever kills the process group of the server leaves this to kill what handlers have started.
    os.setpgid(0, 0)
    own = os.getpid()
    heard = (signal.SIGCHLD, signal.SIGUSR2)
    ignored = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, (*heard, *ignored))
    _pyovms._signal_at_parents_end(signal.SIGUSR2)
    child = os.fork()
    if child == 0:
        _pyovms._adopt()
        # Nor is it killed with the keeper.
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        return own
    try:
        os.close(descriptor)
        while signal.sigwait(heard) == signal.SIGCHLD:
            if any(pid == child for pid, _ in reaped()):
                break
        end()
    finally:
        os._exit(0)


def serve(control, wake, woken, group, keeper):
    """Forks workers until the server, whose process group is given, or the keeper has gone."""
    workers = set()
    # Process groups of workers that have ended, and until when those that clean up may go on there.
    left = {}
    while os.getppid() == keeper:
        left = {group: until for group, until in left.items() if not cleared(group, until)}
        ready, _, _ = select.select([control, wake], [], [], PAUSE_BESIDE if left else None)
        if wake in ready:
            try:
                while os.read(wake, 4096):
                    pass
            except BlockingIOError:
                pass
            for pid, status in reaped():
                if pid in workers:
                    workers.discard(pid)
                    left[pid] = time.monotonic() + CLEANING_BESIDE
                    say(control, {"ended": pid, "status": status})
        if control in ready:
            try:
                data, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, 4)
            except ConnectionError:
                return
            if not data:
                return
            request = json.loads(data)
            pid = -1
            try:
                pid = os.fork()
                # It cannot be reaped before it is known by this.
                handle = os.pidfd_open(pid) if pid else None
            except OSError as error:
                if pid > 0:
                    os.kill(pid, signal.SIGKILL)
                say(control, {"request": request["request"], "error": str(error)})
                continue
            finally:
                if pid != 0:
                    for descriptor in descriptors:
                        os.close(descriptor)
            if pid == 0:
                control.close()
                os.close(wake)
                os.close(woken)
                work(request, descriptors, group)
            workers.add(pid)
            # The number of its group, too, is its own from here on.
            left.pop(pid, None)
            say(control, {"request": request["request"], "pid": pid}, [handle])
            os.close(handle)


def say(control, message, descriptors=()):
    """Sends a message; that the server has gone is noticed elsewhere."""
    try:
        socket.send_fds(control, [json.dumps(message).encode()], descriptors)
    except OSError:
        pass


def reaped():
    """Returns the children that have ended, with their status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


# Where `/proc` has the parent and the process group of a process, after its name.
PARENT, GROUP = 1, 2


def field_of(pid, field):
    """Returns the parent or the process group of a process; none if it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[field])
    except OSError:
        return None


def processes(field, number):
    """Returns the processes that have such a parent, or such a process group."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and field_of(entry, field) == number:
            yield int(entry)


def descends(pid):
    """Returns whether a process has come of this one."""
    while pid and pid != os.getpid():
        pid = field_of(pid, PARENT)
    return bool(pid)


def cleans(pid):
    """Returns whether a process removes the names that `multiprocessing` has left in the system, once all that use them
    have ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read(1 << 16)
    except OSError:
        return False


def end():
    """Kills all descendants: the children of one that is killed become those of this process. Those that clean up behind
    others end by themselves, or are killed a little later. Those that may not be killed stay."""
    until = time.monotonic() + CLEANING
    while True:
        is_cleaning, is_killed, stays = False, False, False
        for pid in processes(PARENT, os.getpid()):
            if time.monotonic() < until and cleans(pid):
                is_cleaning = True
                continue
            try:
                os.kill(pid, signal.SIGKILL)
                is_killed = True
            except ProcessLookupError:
                pass
            except OSError:
                # Of another user, say.
                stays = True
        if stays and not is_killed and not is_cleaning:
            return
        try:
            if not is_cleaning:
                os.waitpid(-1, 0)
            elif os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(PAUSE)
        except ChildProcessError:
            return


def cleared(group, until):
    """Kills what a worker that has ended has left in its process group; returns whether nothing is left to do. Those that
    clean up come last, and may end by themselves until then."""
    # The number of a group without members may be that of a stranger's soon.
    members = [pid for pid in processes(GROUP, group) if descends(pid)]
    is_over = time.monotonic() >= until
    if not members:
        return True
    try:
        if is_over or not any(map(cleans, members)):
            os.killpg(group, signal.SIGKILL)
            return True
        for pid in members:
            if not cleans(pid):
                os.kill(pid, signal.SIGKILL)
    except OSError:
        # It has gone, or may not be killed, since it runs as another user.
        pass
    return is_over


def write_stacks(descriptor):
    """Has the stacks of all threads written at a fatal signal, and when the server asks for them."""
    os.set_inheritable(descriptor, False)
    # Python alone is of interest, and takes no lock.
    more = {"c_stack": False} if sys.version_info >= (3, 14) else {}
    faulthandler.enable(descriptor, **more)
    faulthandler.register(signal.SIGSTKFLT, descriptor)
    # What becomes of a child is not about the worker.
    os.register_at_fork(after_in_child=lambda: silence(descriptor))


def silence(descriptor):
    """Has what is written to a descriptor go nowhere."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor, inheritable=False)
        os.close(null)
    except OSError:
        pass


def keep_from_forks(link):
    """Has what handlers fork neither read the orders of the worker nor use its memory."""

    def in_child():
        _pyovms._forked()
        silence(link)

    os.register_at_fork(after_in_child=in_child)


def stay_at_term():
    """Has SIGTERM end nothing: whoever stops a whole control group, as systemd does, sends it here as well, where
    requests are still answered. What handlers fork or start is ended by it, as ever."""
    signal.signal(signal.SIGTERM, lambda *_: None)


def forks_end_at_term():
    """Has SIGTERM end what handlers fork, from the first moment on: one that came before the handler of signals of
    the worker is put back there would be lost, so it waits until then."""
    masks = threading.local()

    def before():
        masks.old = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def after():
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.old)

    def in_child():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        after()

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_child)


def draw_anew():
    """Has NumPy draw other random numbers than the workers beside this one and before it: where the import of NumPy makes
    its generator, as before NumPy 2, that is one for all that are forked. Python does so itself."""
    # Nothing, where NumPy could not be imported.
    seed = getattr(sys.modules.get("numpy.random"), "seed", None)
    if seed is not None:
        seed()


def work(request, descriptors, group):
    """Runs a worker, which is what this process is from here on; never returns."""
    status = 1
    printed = []
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        forks_end_at_term()
        # Whoever has the terminal says where the handler was.
        signal.signal(signal.SIGINT, lambda *_: None)
        _pyovms._signal_at_parents_end(signal.SIGKILL)
        link, stacks, *streams = descriptors
        write_stacks(stacks)
        keep_from_forks(link)
        draw_anew()
        from . import loading

        loading.shows_raised = request["shows_raised"]
        if not streams:
            try:
                # Which has the terminal.
                os.setpgid(0, group)
            except OSError:
                # Nobody is left there.
                pass
        if streams:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.close(null)
            for number, descriptor in enumerate(streams, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.stdin = open(0, closefd=False)
            node = loading.node_of_threads(_pyovms._node)
            printed = [loading.Lines(number, node, _pyovms._begin_line) for number in (1, 2)]
            sys.stdout, sys.stderr = printed
        limit = request.get("memory_limit")
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        _pyovms._serve(link, loading, request["shared_limit"])
        status = 0
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for lines in printed:
            lines.flush_all()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
