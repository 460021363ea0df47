"""The keeper: starts PostgreSQL, blocks until its last user has gone, and stops it.

A program of its own, run as a file with `python -I -S`: nothing of Recollect is loaded, so it
stays at some 9 MB, and it needs nothing from the disk once it runs.
"""

import fcntl
import os
import signal
import sys
import time

_POLL_SECONDS = 0.01
# Fast shutdown writes a checkpoint, which takes long on a busy disk; the immediate one does not
# wait, and the next start recovers from the log.
_STOP = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 15.0))


def main(arguments: list[str]) -> None:
    """Keep the server of `cluster`: `pid` if that is not 0, else the one `command` starts."""
    descriptors, owner, pid, cluster, *command = arguments
    users, *others = [int(each) for each in descriptors.split(",")]
    if os.fork():
        os._exit(0)  # so that nobody has to wait for the keeper, or finds it as a zombie
    for fd in (users, *others):
        os.set_inheritable(fd, False)
    _become(owner)
    server = int(pid) or _start(command)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # It ends by itself once the users have ended, which the same signal may have told them.
        signal.signal(each, signal.SIG_IGN)
    fcntl.flock(users, fcntl.LOCK_EX)
    # The lock is held until this process ends, so whoever comes now waits for the stop.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _stop(server, cluster)


def _become(owner: str) -> None:
    if owner:
        uid, gid = (int(each) for each in owner.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _start(command: list[str]) -> int:
    signal.signal(signal.SIGCHLD, _end_with_the_server)
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(command[0], command)  # noqa: S606 - a list of our own, without a shell
        except OSError as error:
            os.write(2, f"FATAL:  could not execute {command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    return pid


def _end_with_the_server(_number: int, _frame: object) -> None:
    # Ending closes the pipe on which the starter listens, and lets a next keeper take over.
    if os.waitpid(-1, os.WNOHANG)[0]:
        os._exit(0)


def _stop(server: int, cluster: str) -> None:
    for number, patience in _STOP:
        if _has_ended(server, cluster):
            return
        os.kill(server, number)
        end = time.monotonic() + patience
        while time.monotonic() < end and not _has_ended(server, cluster):
            time.sleep(_POLL_SECONDS)


def _has_ended(server: int, cluster: str) -> bool:
    try:
        return os.waitpid(server, os.WNOHANG)[0] == server
    except ChildProcessError:
        pass  # reaped already, or started by a keeper before this one
    try:
        os.kill(server, 0)
        with open(os.path.join(cluster, "postmaster.pid"), "rb") as file:  # noqa: PTH118, PTH123 - pathlib would double the keeper
            return file.readline().strip() != str(server).encode()
    except (ProcessLookupError, FileNotFoundError):
        return True


if __name__ == "__main__":
    main(sys.argv[1:])
