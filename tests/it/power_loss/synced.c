/* What a disk holds when the power fails: for LD_PRELOAD. Of the files below SYNCED_FROM it keeps
 * in SYNCED_TO what was there at the start and what was synced since, and nothing else: contents
 * with fsync or fdatasync of the file, names with fsync of the directory.
 *
 * SYNCED_TO/root          the key of the directory SYNCED_FROM
 * SYNCED_TO/files/KEY     the contents of a file
 * SYNCED_TO/dirs/KEY      the names in a directory: "f KEY NAME" or "d KEY NAME", a line each
 *
 * A key is an inode and when it was made, since inodes are used again. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4096, KEY = 64, CHUNK = 1 << 20 };

static const char *from, *to;
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* How much of a file is kept: files only grow, or are cut and grow again. */
static struct { char key[KEY]; off_t kept; } files[FILES];
static int file_count;

static void fail(const char *what) {
    perror(what);
    abort();
}

static int key_of(int dir, const char *name, char *key, struct statx *about) {
    int flags = (*name ? 0 : AT_EMPTY_PATH) | AT_SYMLINK_NOFOLLOW;
    if (statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, about)) return -1;
    snprintf(key, KEY, "%llx-%llx-%x", (unsigned long long)about->stx_ino,
             (unsigned long long)about->stx_btime.tv_sec, about->stx_btime.tv_nsec);
    return 0;
}

static off_t *kept(const char *key) {
    for (int n = 0; n < file_count; n++)
        if (!strcmp(files[n].key, key)) return &files[n].kept;
    if (file_count == FILES) fail("synced: too many files");
    strcpy(files[file_count].key, key);
    return &files[file_count++].kept;
}

static int open_kept(const char *kind, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", to, kind, name);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) fail(path);
    return file;
}

static void keep_file(int fd, const char *key, off_t size) {
    static char chunk[CHUNK];
    int copy = open_kept("files", key);
    off_t *at = kept(key);
    /* The descriptor may be for writing only. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) fail("synced: a file cannot be read");
    while (*at < size) {
        size_t want = size - *at < CHUNK ? size - *at : CHUNK;
        ssize_t got = pread(file, chunk, want, *at);
        if (got <= 0 || pwrite(copy, chunk, got, *at) != got) fail("synced: a copy failed");
        *at += got;
    }
    if (real_ftruncate(copy, size)) fail("synced: a copy cannot be cut");
    *at = size;
    close(file);
    close(copy);
}

/* The names at once: half a directory is never kept. */
static void keep_directory(int fd, const char *key) {
    char temporary[PATH_MAX], path[PATH_MAX], line[PATH_MAX];
    int listing = open_kept("dirs", "new");
    if (real_ftruncate(listing, 0)) fail("synced: a listing cannot be cut");
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir) fail("synced: a directory cannot be read");
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct statx about;
        char entry_key[KEY];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (key_of(fd, entry->d_name, entry_key, &about)) continue;
        int length = snprintf(line, sizeof line, "%c %s %s\n",
                              S_ISDIR(about.stx_mode) ? 'd' : 'f', entry_key, entry->d_name);
        if (write(listing, line, length) != length) fail("synced: a listing failed");
    }
    closedir(dir);
    close(listing);
    snprintf(temporary, sizeof temporary, "%s/dirs/new", to);
    snprintf(path, sizeof path, "%s/dirs/%s", to, key);
    if (rename(temporary, path)) fail("synced: a listing cannot be put there");
}

static int is_ours(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!to || length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, from, strlen(from));
}

/* How long a file is. What is appended while a sync runs need not be in it, so the length before
 * the sync counts. */
static off_t length_of(int fd) {
    struct stat about;
    return fstat(fd, &about) ? 0 : about.st_size;
}

/* `synced`: how long the file was before its sync. */
static void keep(int fd, off_t synced) {
    struct statx about;
    char key[KEY];
    if (!is_ours(fd) || key_of(fd, "", key, &about)) return;
    pthread_mutex_lock(&lock);
    if (S_ISDIR(about.stx_mode)) {
        keep_directory(fd, key);
    } else {
        /* It may have been cut meanwhile, or a sync that began later has ended earlier. */
        off_t now = length_of(fd), size = synced < now ? synced : now;
        keep_file(fd, key, size > *kept(key) ? size : *kept(key));
    }
    pthread_mutex_unlock(&lock);
}

static int sync_and_keep(int (*sync)(int), int fd) {
    off_t synced = length_of(fd);
    int result = sync(fd);
    if (!result) keep(fd, synced);
    return result;
}

int fsync(int fd) { return sync_and_keep(real_fsync, fd); }

int fdatasync(int fd) { return sync_and_keep(real_fdatasync, fd); }

int ftruncate64(int fd, off_t length) {
    struct statx about;
    char key[KEY];
    pthread_mutex_lock(&lock);
    if (is_ours(fd) && !key_of(fd, "", key, &about) && *kept(key) > length) *kept(key) = length;
    pthread_mutex_unlock(&lock);
    return real_ftruncate(fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int keep_what_is_there(const char *path, const struct stat *about, int type, struct FTW *at) {
    (void)type, (void)at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(path);
    keep(fd, about->st_size);
    close(fd);
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    struct statx about;
    char key[KEY];
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    from = getenv("SYNCED_FROM");
    to = getenv("SYNCED_TO");
    if (!from || !to || key_of(AT_FDCWD, from, key, &about)) fail("synced: SYNCED_FROM");
    int root = open_kept("", "root");
    if (real_ftruncate(root, 0)) fail("synced: root");
    if (write(root, key, strlen(key)) != (ssize_t)strlen(key)) fail("synced: root");
    close(root);
    if (nftw(from, keep_what_is_there, 16, FTW_PHYS)) fail("synced: SYNCED_FROM");
}
