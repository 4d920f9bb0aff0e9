/* A disk that fails on demand: loaded with LD_PRELOAD, it takes over write(), open(), openat() and the syncs of files whose
 * path holds $NETDEBUG_FAULT_MARKER. What it does stands in the file $NETDEBUG_FAULT_CONTROL, read anew at
 * each call, so that a test can let the disk fill up and later have space again:
 *
 *   ok            as always
 *   torn E N      take N bytes more, then fail with errno E
 *   short N       take at most N bytes a call
 *   open E        refuse to make files, with errno E; writing works
 *   sync E        refuse to sync, with errno E; writing works
 *   stall         hang until something else stands there
 *
 * Each refused or stalled call adds one byte to <control>.calls, so that a test can wait for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_open64)(const char *, int, ...);
static int (*real_openat64)(int, const char *, int, ...);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void find_real(void)
{
    real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    real_open64 = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    real_openat64 = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
}

static int marked(const char *path)
{
    const char *marker = getenv("NETDEBUG_FAULT_MARKER");
    return marker && path && strstr(path, marker) != NULL;
}

static int is_marked(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return marked(path);
}

static void read_order(char *order, size_t size)
{
    const char *path = getenv("NETDEBUG_FAULT_CONTROL");
    ssize_t got = 0;
    int fd = path ? real_open64(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        got = read(fd, order, size - 1);
        close(fd);
    }
    order[got > 0 ? got : 0] = '\0';
}

static void note_call(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.calls", getenv("NETDEBUG_FAULT_CONTROL"));
    int fd = real_open64(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (real_write(fd, "x", 1) < 0) abort();
        close(fd);
    }
}

static ssize_t fail(int code)
{
    note_call();
    errno = code;
    return -1;
}

ssize_t write(int fd, const void *data, size_t size)
{
    static char last_order[64];
    static long room;
    char order[64];
    int code;
    long number;

    if (!is_marked(fd)) return real_write(fd, data, size);

    read_order(order, sizeof order);
    if (strcmp(order, "stall") == 0) note_call();
    while (strcmp(order, "stall") == 0) {
        usleep(1000);
        read_order(order, sizeof order);
    }
    if (sscanf(order, "short %ld", &number) == 1)
        return real_write(fd, data, size < (size_t)number ? size : (size_t)number);
    if (sscanf(order, "torn %d %ld", &code, &number) == 2) {
        if (strcmp(order, last_order) != 0) room = number;
        strcpy(last_order, order);
        if (room <= 0) return fail(code);
        ssize_t taken = real_write(fd, data, size < (size_t)room ? size : (size_t)room);
        if (taken > 0) room -= taken;
        return taken;
    }
    last_order[0] = '\0';
    return real_write(fd, data, size);
}

static int refuses_to_make(const char *path, int flags, int *code)
{
    char order[64];
    if (!(flags & O_CREAT) || !marked(path)) return 0;
    read_order(order, sizeof order);
    return sscanf(order, "open %d", code) == 1;
}

#define MODE_AFTER(flags)                \
    mode_t mode = 0;                     \
    if ((flags) & O_CREAT) {             \
        va_list rest;                    \
        va_start(rest, flags);           \
        mode = va_arg(rest, mode_t);     \
        va_end(rest);                    \
    }

int open64(const char *path, int flags, ...)
{
    int code;
    MODE_AFTER(flags)
    return refuses_to_make(path, flags, &code) ? (int)fail(code) : real_open64(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return open64(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    int code;
    MODE_AFTER(flags)
    return refuses_to_make(path, flags, &code) ? (int)fail(code) : real_openat64(folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return openat64(folder, path, flags, mode);
}

static int sync_or_fail(int fd, int (*real)(int))
{
    char order[64];
    int code;
    if (is_marked(fd)) {
        read_order(order, sizeof order);
        if (sscanf(order, "sync %d", &code) == 1) return (int)fail(code);
    }
    return real(fd);
}

int fsync(int fd)
{
    return sync_or_fail(fd, real_fsync);
}

int fdatasync(int fd)
{
    return sync_or_fail(fd, real_fdatasync);
}
