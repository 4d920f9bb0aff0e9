/* Forks a copy of the process that can change nothing outside of itself.
 *
 * os.fork will not do. It runs what the program has registered for its forks, in the copy before anything is cut
 * off; and the end of the copy would be told to the program's handler of SIGCHLD and to its os.wait. This child has
 * no signal for its end, so that only who has its descriptor can wait for it, and it is confined before the
 * interpreter takes notice of the fork.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define CAN_CONFINE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { ANSWER = 3, NOT_CONFINED = 2, LAST_SIGNAL = 64, LINE = 4096, PROBE = 100000 };

static void give_up(void) { _exit(NOT_CONFINED); }

static void forget_signal_handlers(void)
{
    for (int number = 1; number <= LAST_SIGNAL; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL)
            signal(number, SIG_DFL);
    }
}

/* Behind every other process when memory runs out. */
static void step_back(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write(file, "1000", 4) != 4)
            errno = 0; /* then it stays what it is */
        close(file);
    }
}

/* A line of /proc/self/maps: "begin-end rwxs ...". */
static void make_readable_only(const char *line)
{
    char *rest;
    unsigned long begin = strtoul(line, &rest, 16);
    if (*rest != '-')
        return;
    unsigned long end = strtoul(rest + 1, &rest, 16);
    if (strlen(rest) < 5 || rest[2] != 'w' || rest[4] != 's')
        return;
    if (mprotect((void *)begin, end - begin, PROT_READ) != 0)
        give_up();
}

static void make_shared_memory_readable_only(void)
{
    static char buffer[LINE], line[LINE];
    size_t length = 0;
    ssize_t count;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        give_up();
    while ((count = read(maps, buffer, sizeof buffer)) > 0)
        for (ssize_t place = 0; place < count; place++) {
            if (buffer[place] != '\n') {
                if (length + 1 < sizeof line)
                    line[length++] = buffer[place];
                continue;
            }
            line[length] = '\0';
            length = 0;
            make_readable_only(line);
        }
    if (count < 0)
        give_up();
    close(maps);
}

/* What is written to the standard streams from now on is dropped. */
static void close_all_but(int answer)
{
    int kept = fcntl(answer, F_DUPFD, ANSWER + 1);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (kept < 0 || nowhere < 0 || dup2(kept, ANSWER) < 0)
        give_up();
    for (int standard = 0; standard < ANSWER; standard++)
        if (dup2(nowhere, standard) < 0)
            give_up();
    if (syscall(SYS_close_range, ANSWER + 1, ~0U, 0) == 0)
        return;
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur > 1 << 20)
        give_up();
    for (int number = ANSWER + 1; number < (int)most.rlim_cur; number++)
        close(number);
}

static void confine(int answer, pid_t parent, struct sock_fprog *allowed)
{
    struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        give_up(); /* it is gone already */
    forget_signal_handlers();
    step_back();
    make_shared_memory_readable_only();
    close_all_but(answer);
    if (setrlimit(RLIMIT_NOFILE, &none) != 0 || setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0)
        give_up();
    prctl(PR_SET_DUMPABLE, 0); /* nobody gets its memory when it crashes */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, allowed, 0, 0) != 0)
        give_up();
}

/* Another thread may have held a lock of malloc's at the fork; nobody is there to open it. A block of this size is
 * taken behind the lock. Without the sign, the parent knows by what we wait for, and asks another copy. */
static void give_sign_of_life(void)
{
    char *volatile block = malloc(PROBE);
    free(block);
    PyOS_AfterFork_Child();
    if (write(ANSWER, ".", 1) != 1)
        give_up();
}

static PyObject *fork_confined(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    int answer, descriptor = -1;
    Py_buffer code;
    if (!PyArg_ParseTuple(arguments, "iy*", &answer, &code))
        return NULL;
    struct sock_fprog allowed = {(unsigned short)(code.len / sizeof(struct sock_filter)), code.buf};
    pid_t parent = getpid();
#if PY_VERSION_HEX >= 0x030D0000 /* from here on the interpreter expects to have been asked before */
    PyOS_BeforeFork();
#endif
    long child = syscall(SYS_clone, CLONE_PIDFD, 0, &descriptor, 0, 0);
    int number = errno;
    if (child == 0) {
        confine(answer, parent, &allowed);
        give_sign_of_life();
        return Py_BuildValue("ii", 0, ANSWER);
    }
#if PY_VERSION_HEX >= 0x030D0000
    PyOS_AfterFork_Parent();
#endif
    PyBuffer_Release(&code);
    if (child < 0) {
        errno = number;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("li", child, descriptor);
}

#else
#define CAN_CONFINE 0

static PyObject *fork_confined(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(arguments))
{
    PyErr_SetString(PyExc_OSError, "this system has no way to confine a process");
    return NULL;
}
#endif

static PyMethodDef functions[] = {
    {"fork_confined", fork_confined, METH_VARARGS, "Fork, and confine the child before anything runs in it."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tb_netdebug.recording.fork._fork", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fork(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "CAN_CONFINE", CAN_CONFINE ? Py_True : Py_False) < 0)
        Py_CLEAR(module);
    return module;
}
