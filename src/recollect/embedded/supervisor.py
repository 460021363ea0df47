"""The supervisor: a process that starts PostgreSQL and stops it when its last user has gone.

It runs as a separate program with `python -I -S` and does not import Recollect, so it uses about 9
MB and needs nothing from the disk once it runs.
"""

import fcntl
import os
import signal
import sys
import time

_POLL_SECONDS = 0.01
# SIGINT (fast shutdown) writes a checkpoint, which takes long on a busy disk. SIGQUIT (immediate
# shutdown) does not, and the next start recovers from the log.
_STOP_SIGNALS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 15.0))


def main(arguments: list[str]) -> None:
    """Supervise the server of `cluster`, process `pid`. If `pid` is 0, start it with `command`."""
    descriptors, owner, pid, cluster, *command = arguments
    users, *others = [int(each) for each in descriptors.split(",")]
    if os.fork():
        os._exit(0)  # detach: no process has to wait for the supervisor, and it leaves no zombie
    for fd in (users, *others):
        os.set_inheritable(fd, False)
    _drop_privileges(owner)
    server = int(pid) or _start(command)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The same signal may end the users, and the supervisor ends after them.
        signal.signal(each, signal.SIG_IGN)
    fcntl.flock(users, fcntl.LOCK_EX)
    # The lock is held until this process ends, so new users wait until the server has stopped.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _stop(server, cluster)


def _drop_privileges(owner: str) -> None:
    if owner:
        uid, gid = (int(each) for each in owner.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _start(command: list[str]) -> int:
    signal.signal(signal.SIGCHLD, _exit_with_server)
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(command[0], command)  # noqa: S606 - our own arguments, without a shell
        except OSError as error:
            os.write(2, f"FATAL:  could not execute {command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    return pid


def _exit_with_server(_number: int, _frame: object) -> None:
    # The exit closes the pipe that the starting process polls, and releases the supervisor lock.
    if os.waitpid(-1, os.WNOHANG)[0]:
        os._exit(0)


def _stop(server: int, cluster: str) -> None:
    for number, timeout in _STOP_SIGNALS:
        if _has_ended(server, cluster):
            return
        os.kill(server, number)
        end = time.monotonic() + timeout
        while time.monotonic() < end and not _has_ended(server, cluster):
            time.sleep(_POLL_SECONDS)


def _has_ended(server: int, cluster: str) -> bool:
    try:
        return os.waitpid(server, os.WNOHANG)[0] == server
    except ChildProcessError:
        pass  # already reaped, or started by an earlier supervisor
    try:
        os.kill(server, 0)
        with open(os.path.join(cluster, "postmaster.pid"), "rb") as file:  # noqa: PTH118, PTH123 - pathlib would double the supervisor's memory
            return file.readline().strip() != str(server).encode()
    except (ProcessLookupError, FileNotFoundError):
        return True


if __name__ == "__main__":
    main(sys.argv[1:])
