/* Preloaded into a process: the n-th call that changes something below FAULT_UNDER fails with FAULT_ERRNO.
 *
 * FAULT_AT=n counts from one; FAULT_TIMES=k lets k calls in a row fail. What failed is written to FAULT_TOLD, a line
 * each, and what was counted to FAULT_SEEN. A test in the same process may arm it anew: fault_arm(n, times, errno),
 * fault_pause(1 or 0), fault_count(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static long count, first, times = 1;
static int code = EIO, paused;
static const char *under, *told, *seen;

__attribute__((constructor)) static void begin(void) {
    const char *text;
    under = getenv("FAULT_UNDER");
    told = getenv("FAULT_TOLD");
    seen = getenv("FAULT_SEEN");
    if ((text = getenv("FAULT_AT"))) first = atol(text);
    if ((text = getenv("FAULT_TIMES"))) times = atol(text);
    if ((text = getenv("FAULT_ERRNO"))) code = atoi(text);
}

void fault_arm(long at, long how_often, int with) { count = 0; first = at; times = how_often; code = with; }
void fault_pause(int now) { paused = now; }
long fault_count(void) { return count; }

static void tell(const char *into, long now, const char *call, const char *path) {
    char line[4400];
    if (!into) return;
    int length = snprintf(line, sizeof line, "%ld %s %s\n", now, call, path);
    int file = syscall(SYS_openat, AT_FDCWD, into, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) { syscall(SYS_write, file, line, length); syscall(SYS_close, file); }
}

static int fails(const char *call, const char *path) {
    if (paused || !under || !path || strncmp(path, under, strlen(under))) return 0;
    long now = __sync_add_and_fetch(&count, 1);
    tell(seen, now, call, path);
    if (!first || now < first || now >= first + times) return 0;
    tell(told, now, call, path);
    errno = code;
    return 1;
}

static int fails_at(const char *call, int file) {
    char name[64], path[4096];
    if (!under) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(call, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        if ((flags & O_CREAT) && fails("open", path)) return -1; \
        return ((int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, #name))(path, flags, mode); }
OPENS(open)
OPENS(open64)
ssize_t write(int file, const void *bytes, size_t size) {
    return fails_at("write", file) ? -1 : NEXT(write)(file, bytes, size); }
ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    return fails_at("pwrite", file) ? -1 : NEXT(pwrite)(file, bytes, size, at); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    return fails_at("pwrite", file) ? -1 : NEXT(pwrite64)(file, bytes, size, at); }
int fsync(int file) { return fails_at("fsync", file) ? -1 : NEXT(fsync)(file); }
int fdatasync(int file) { return fails_at("fdatasync", file) ? -1 : NEXT(fdatasync)(file); }
int ftruncate(int file, off_t size) { return fails_at("ftruncate", file) ? -1 : NEXT(ftruncate)(file, size); }
int ftruncate64(int file, off64_t size) { return fails_at("ftruncate", file) ? -1 : NEXT(ftruncate64)(file, size); }
int posix_fallocate(int file, off_t at, off_t size) {
    return fails_at("fallocate", file) ? code : NEXT(posix_fallocate)(file, at, size); }
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return fails_at("fallocate", file) ? code : NEXT(posix_fallocate64)(file, at, size); }
int rename(const char *from, const char *to) { return fails("rename", to) ? -1 : NEXT(rename)(from, to); }
int unlink(const char *path) { return fails("unlink", path) ? -1 : NEXT(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return fails("mkdir", path) ? -1 : NEXT(mkdir)(path, mode); }
