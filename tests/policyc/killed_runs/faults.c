/* Preloaded into a run: counts the calls that change files below a folder, and lets one of them go wrong.

   The run calls `faults_begin` when it begins. Before that, and elsewhere, nothing is counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL = 1, HALF = 2, ONCE = 1000, STAYS = 2000 }; /* ONCE and STAYS: and an error number */

static atomic_long calls;
static long chosen;
static int what, record = -1;
static char folder[PATH_MAX];

void faults_begin(const char *below, long number, int kind, const char *list) {
    snprintf(folder, sizeof folder, "%s", below);
    chosen = number;
    what = kind;
    record = (int)syscall(SYS_openat, AT_FDCWD, list, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    atomic_store(&calls, 0);
}

static int below(const char *path) {
    char here[PATH_MAX];
    if (record < 0 || path == NULL) return 0;
    if (path[0] != '/') {
        if (getcwd(here, sizeof here) == NULL) return 0;
        path = here;
    }
    return strncmp(path, folder, strlen(folder)) == 0;
}

static int open_below(int fd, char *path) {
    char link[64];
    if (record < 0 || fd < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return path[0] == '/' && below(path);
}

static void die(void) {
    syscall(SYS_kill, (int)syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

/* Counts one call. Kills, or says which error it has: 0 none, -1 to be cut in half. */
static int counted(const char *name, const char *path, int fails_when_full) {
    char line[PATH_MAX + 64];
    long number = atomic_fetch_add(&calls, 1) + 1;
    int size = snprintf(line, sizeof line, "%s %s\n", name, path);
    syscall(SYS_write, record, line, (size_t)size);
    if (what >= STAYS) return number >= chosen && fails_when_full ? what - STAYS : 0;
    if (number != chosen) return 0;
    if (what == KILL) die();
    if (what == HALF) return -1;
    return what >= ONCE ? what - ONCE : 0;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (real == NULL) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define FAULT(found) \
    do { \
        int error = (found); \
        if (error == -1) die(); \
        if (error > 0) { errno = error; return -1; } \
    } while (0)

#define WRITES(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        char path[PATH_MAX]; \
        if (open_below(fd, path)) { \
            int fault = counted(#name, path, 1); \
            if (fault == -1) real(fd, data, size / 2, offset); \
            FAULT(fault); \
        } \
        return real(fd, data, size, offset); \
    }

WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    char path[PATH_MAX];
    if (open_below(fd, path)) {
        int fault = counted("write", path, 1);
        if (fault == -1) real(fd, data, size / 2);
        FAULT(fault);
    }
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    char path[PATH_MAX];
    if (open_below(fd, path)) FAULT(counted("writev", path, 1));
    return real(fd, parts, count);
}

#define COPIES(name, offset_type) \
    ssize_t name(int to, int from, offset_type *offset, size_t size) { \
        REAL(ssize_t, name, int, int, offset_type *, size_t); \
        char path[PATH_MAX]; \
        if (open_below(to, path)) { \
            int fault = counted(#name, path, 1); \
            if (fault == -1) real(to, from, offset, size / 2 < 512 ? size / 2 : 512); \
            FAULT(fault); \
        } \
        return real(to, from, offset, size); \
    }

COPIES(sendfile, off_t)
COPIES(sendfile64, off64_t)

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *offset, size_t size, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    char path[PATH_MAX];
    if (open_below(to, path)) {
        int fault = counted("copy_file_range", path, 1);
        if (fault == -1) real(from, at, to, offset, size / 2 < 512 ? size / 2 : 512, flags);
        FAULT(fault);
    }
    return real(from, at, to, offset, size, flags);
}

#define ON_OPEN_FILE(name) \
    int name(int fd) { \
        REAL(int, name, int); \
        char path[PATH_MAX]; \
        if (open_below(fd, path)) FAULT(counted(#name, path, 1)); \
        return real(fd); \
    }

ON_OPEN_FILE(fsync)
ON_OPEN_FILE(fdatasync)

#define CUTS(name, offset_type) \
    int name(int fd, offset_type size) { \
        REAL(int, name, int, offset_type); \
        char path[PATH_MAX]; \
        if (open_below(fd, path)) FAULT(counted(#name, path, 0)); \
        return real(fd, size); \
    }

CUTS(ftruncate, off_t)
CUTS(ftruncate64, off64_t)

int fchmod(int fd, mode_t mode) {
    REAL(int, fchmod, int, mode_t);
    char path[PATH_MAX];
    if (open_below(fd, path)) FAULT(counted("fchmod", path, 0));
    return real(fd, mode);
}

#define ON_PATH(name, when_full) \
    int name(const char *path) { \
        REAL(int, name, const char *); \
        if (below(path)) FAULT(counted(#name, path, when_full)); \
        return real(path); \
    }

ON_PATH(unlink, 0)
ON_PATH(rmdir, 0)

#define ON_PATH_WITH_MODE(name, when_full) \
    int name(const char *path, mode_t mode) { \
        REAL(int, name, const char *, mode_t); \
        if (below(path)) FAULT(counted(#name, path, when_full)); \
        return real(path, mode); \
    }

ON_PATH_WITH_MODE(mkdir, 1)
ON_PATH_WITH_MODE(chmod, 0)

#define ON_TWO_PATHS(name) \
    int name(const char *old, const char *path) { \
        REAL(int, name, const char *, const char *); \
        if (below(path)) FAULT(counted(#name, path, 0)); \
        return real(old, path); \
    }

ON_TWO_PATHS(rename)
ON_TWO_PATHS(link)

int unlinkat(int at, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    if (below(path)) FAULT(counted("unlinkat", path, 0));
    return real(at, path, flags);
}

int renameat(int from, const char *old, int to, const char *path) {
    REAL(int, renameat, int, const char *, int, const char *);
    if (below(path)) FAULT(counted("renameat", path, 0));
    return real(from, old, to, path);
}

#define MAKES (O_CREAT | O_TRUNC)

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (flags & MAKES && below(path)) FAULT(counted(#name, path, 1)); \
        return real(path, flags, mode); \
    }

OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (flags & MAKES && below(path)) FAULT(counted(#name, path, 1)); \
        return real(at, path, flags, mode); \
    }

OPENS_AT(openat)
OPENS_AT(openat64)
