/* jit/cache.c -- the files:
 *
 *     key                          32 random bytes, mode 0600: seals are keyed with them
 *     <64 hex digits>.frit         "FRITKRN2"  key[32]  origin  u64 length  payload  seal[32]
 *     .tmp-<pid>-<random>          being written; renamed when it is whole and on disk
 *
 * A file's time of modification is that of its last use; the oldest go when all together pass the
 * size cap. */
#include "jit/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "jit/compile.h"

enum { MAX_ENTRY = 64 << 20, NAME_LEN = 80, SECRET_BYTES = 32 };
enum {
    STALE_TMP_S = 3600, /* an unfinished file this old was left by a crash */
    TOUCH_AFTER_S = 600
}; /* a use is noted at most this often */

static const char magic[8] = {'F', 'R', 'I', 'T', 'K', 'R', 'N', '2'};

struct entry_head {
    char          magic[8];
    struct fr_key key;
    struct fr_key_origin origin; /* zeros where there is none */
    uint64_t      n_bytes;
};

/* An entry in memory: fr_cache_hold. */
struct held {
    struct held  *next;
    struct fr_key key;
    size_t        n_bytes;
    char          bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char            wanted[PATH_MAX];    /* as configured; empty: memory only */
static size_t          n_given;             /* so much of it must be there: nobody's home is ours to make */
static char            directory[PATH_MAX]; /* resolved and checked; empty until then */
static bool            checked;
static bool            have_secret;
static uint8_t         secret[SECRET_BYTES];
static uint64_t        written_since_scan = UINT64_MAX;
static struct held    *held;

/* ---- the directory --------------------------------------------------------------------------- */

static const char *
home(char *buf, size_t cap)
{
    const char   *dir = getenv("HOME");
    struct passwd pw, *found = NULL;

    if (dir && *dir == '/')
        return dir;
    if (getpwuid_r(geteuid(), &pw, buf, cap, &found) == 0 && found && pw.pw_dir && *pw.pw_dir == '/')
        return pw.pw_dir;
    return NULL;
}

/* How much of a path names the folder that it is in. */
static size_t
parent_length(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 1 && path[n - 1] != '/')
        n--;
    return n;
}

void
fr_cache_configure(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    char        buf[4096];
    struct stat st;
    int         n = 0;

    pthread_mutex_lock(&lock);
    wanted[0] = directory[0] = '\0';
    n_given = 0;
    checked = have_secret = false;
    written_since_scan = UINT64_MAX;
    if (!fr_env.cache) {
        n = 0;
    } else if (fr_env.cache_dir[0]) {
        n = snprintf(wanted, sizeof wanted, "%s", fr_env.cache_dir);
    } else if (xdg && *xdg == '/') {
        n = snprintf(wanted, sizeof wanted, "%s/frit", xdg);
        n_given = stat(xdg, &st) == 0 ? strlen(xdg) : parent_length(xdg);
    } else if ((xdg = home(buf, sizeof buf))) {
        n = snprintf(wanted, sizeof wanted, "%s/.cache/frit", xdg);
        n_given = strlen(xdg);
    }
    if (n >= (int)sizeof wanted)
        wanted[0] = '\0';
    pthread_mutex_unlock(&lock);
}

void
fr_cache_after_fork(void)
{
    /* The thread that may have held the lock is not in this process. */
    pthread_mutex_init(&lock, NULL);
    directory[0] = '\0';
    checked = have_secret = false;
}

static fr_status
odd(struct fr_err *err, const char *path, const char *why)
{
    return fr_fail(err, FR_EOS, "%s: %s", path, why);
}

/* Whether the home, or what else was given, is there, and a place for files: `/` is for who has none. */
static fr_status
check_given(struct fr_err *err)
{
    char        given[PATH_MAX];
    struct stat st, root;

    if (!n_given)
        return FR_OK;
    snprintf(given, sizeof given, "%.*s", (int)n_given, wanted);
    if (stat(given, &st) < 0)
        return odd(err, given, strerror(errno));
    if (!S_ISDIR(st.st_mode) || (stat("/", &root) == 0 && st.st_dev == root.st_dev && st.st_ino == root.st_ino))
        return odd(err, given, "not a home");
    return FR_OK;
}

/* Creates what is missing of the wanted path, for this user alone. */
static fr_status
make_directories(struct fr_err *err)
{
    char path[PATH_MAX];

    memcpy(path, wanted, sizeof path);
    for (char *p = path + 1 + n_given;; p++) {
        char c = *p;

        if (c && c != '/')
            continue;
        *p = '\0';
        if (fr_alloc_may_fail() || (mkdir(path, 0700) < 0 && errno != EEXIST && errno != EISDIR))
            return odd(err, path, strerror(errno));
        *p = c;
        if (!c)
            return FR_OK;
    }
}

/* Whether somebody else could swap what is in this directory. A group that only its user is in
 * (Debian, Fedora give everyone one of the same number) is no other; in a sticky directory of
 * root's only owners rename. */
static bool
others_may_rename(const struct stat *st)
{
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return true;
    if ((st->st_mode & S_ISVTX) && st->st_uid == 0)
        return false;
    if ((st->st_mode & S_IWGRP) && !(st->st_gid == getegid() && getegid() == geteuid()))
        return true;
    return st->st_mode & S_IWOTH;
}

static fr_status
check_parents(char *path, struct fr_err *err)
{
    struct stat st;

    for (char *p = path; *p; p++) {
        bool bad;

        if (*p != '/')
            continue;
        *p = '\0';
        bad = lstat(p == path ? "/" : path, &st) < 0 || !S_ISDIR(st.st_mode) ||
              others_may_rename(&st);
        if (bad)
            odd(err, p == path ? "/" : path, "others may change it");
        *p = '/';
        if (bad)
            return FR_EOS;
    }
    return FR_OK;
}

/* Opens the directory, which must still be this user's alone; -1 with a message otherwise. Opened
 * anew each time, because programs that become daemons close descriptors that are not theirs. */
static int
open_directory(struct fr_err *err)
{
    struct stat st;
    int         fd =
        fr_alloc_may_fail() ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        odd(err, directory, strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077))
        return fd;
    odd(err, directory, "it is not private to this user (owner, or mode not 0700)");
    close(fd);
    return -1;
}

static fr_status
check_directory(struct fr_err *err)
{
    char     *resolved;
    int       fd;
    fr_status st;

    if (wanted[0] != '/')
        return odd(err, wanted, "not an absolute path");
    TRY(check_given(err));
    TRY(make_directories(err));
    if (!(resolved = realpath(wanted, NULL)))
        return odd(err, wanted, strerror(errno));
    snprintf(directory, sizeof directory, "%s", resolved);
    free(resolved);
    TRY(check_parents(directory, err));
    if ((fd = open_directory(err)) < 0)
        return FR_EOS;
    close(fd);
out:
    return st;
}

/* ---- small files ----------------------------------------------------------------------------- */

static fr_status
write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n) {
        ssize_t k = fr_alloc_may_fail() ? (errno = ENOSPC, -1) : write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return FR_EOS;
        p += k;
        n -= (size_t)k;
    }
    return FR_OK;
}

static bool
read_all(int fd, void *bytes, size_t n)
{
    char *p = bytes;

    while (n) {
        ssize_t k = fr_alloc_may_fail() ? 0 : read(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void
temporary_name(char *name)
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = (uint64_t)(uintptr_t)&r ^ (uint64_t)time(NULL);
    snprintf(name, NAME_LEN, ".tmp-%ld-%016llx", (long)getpid(), (unsigned long long)r);
}

/* A new file in `dir` with these parts one after the other, on disk before it gets its name.
 * `replace` false: an existing file of that name stays, and that is fine. */
struct part {
    const void *bytes;
    size_t      n;
};

static fr_status
write_file(int dir, const char *name, const struct part *parts, int n_parts, bool replace, struct fr_err *err)
{
    char      tmp[NAME_LEN];
    int       fd;
    fr_status st = FR_OK;

    temporary_name(tmp);
    fd = fr_alloc_may_fail()
             ? -1
             : openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return odd(err, directory, strerror(errno));
    for (int i = 0; i < n_parts && st == FR_OK; i++)
        st = write_all(fd, parts[i].bytes, parts[i].n);
    if (st == FR_OK && (fr_alloc_may_fail() || fsync(fd) < 0))
        st = FR_EOS;
    if (close(fd) < 0)
        st = FR_EOS;
    if (st == FR_OK && replace && renameat(dir, tmp, dir, name) < 0)
        st = FR_EOS;
    if (st == FR_OK && !replace && linkat(dir, tmp, dir, name, 0) < 0 && errno != EEXIST)
        st = FR_EOS;
    if (st != FR_OK)
        odd(err, directory, strerror(errno));
    if (st != FR_OK || !replace)
        unlinkat(dir, tmp, 0);
    return st;
}

/* A regular file that only this user can have written; -1 if there is none. */
static int
open_private(int dir, const char *name, struct stat *st)
{
    int fd = fr_alloc_may_fail()
                 ? -1
                 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 022))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* ---- the secret ------------------------------------------------------------------------------ */

static fr_status
read_secret(int dir, struct fr_err *err)
{
    struct stat st;
    int         fd = open_private(dir, "key", &st);
    bool        ok;

    if (fd < 0)
        return odd(err, directory, errno == EPERM ? "`key` is not this user's file" : "no key");
    ok = !(st.st_mode & 077) && st.st_size == SECRET_BYTES && read_all(fd, secret, sizeof secret);
    close(fd);
    return ok ? FR_OK : odd(err, directory, "`key` is not a private file of 32 bytes");
}

static fr_status
make_secret(int dir, struct fr_err *err)
{
    uint8_t     fresh[SECRET_BYTES];
    struct part part = {fresh, sizeof fresh};

    if (fr_alloc_may_fail() || getrandom(fresh, sizeof fresh, 0) != sizeof fresh)
        return odd(err, directory, "no random numbers for its key");
    return write_file(dir, "key", &part, 1, false, err);
}

/* The open directory, with the secret at hand; -1 with a message. Lock held. */
static int
begin(struct fr_err *err)
{
    struct stat st;
    int         dir;

    if (!wanted[0])
        return -1;
    if (!checked) {
        checked = true;
        if (check_directory(err) != FR_OK) {
            fr_warn_once("cache", "compiled kernels are kept in memory only: %s", err->text);
            wanted[0] = directory[0] = '\0';
            return -1;
        }
    }
    if ((dir = open_directory(err)) < 0)
        return -1;
    if (have_secret)
        return dir;
    if (fstatat(dir, "key", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT && make_secret(dir, err) != FR_OK)
        goto fail;
    if (read_secret(dir, err) != FR_OK)
        goto fail;
    have_secret = true;
    return dir;
fail:
    fr_warn_once("cache", "compiled kernels are kept in memory only: %s", err->text);
    wanted[0] = directory[0] = '\0';
    close(dir);
    return -1;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void
entry_name(const struct fr_key *key, char *name)
{
    for (int i = 0; i < FR_DIGEST_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
    strcpy(name + 2 * FR_DIGEST_BYTES, ".frit");
}

static bool
is_entry(const char *name)
{
    size_t n = strlen(name);

    return n == 2 * FR_DIGEST_BYTES + 5 && strspn(name, "0123456789abcdef") == n - 5 && !strcmp(name + n - 5, ".frit");
}

static struct fr_key
key_of_entry(const char *name)
{
    struct fr_key key;

    for (int i = 0; i < FR_DIGEST_BYTES; i++) {
        const char digits[3] = {name[2 * i], name[2 * i + 1], '\0'};

        key.bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return key;
}

static void
seal(const struct entry_head *head, const void *payload, uint8_t *out)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, FR_DIGEST_BYTES, secret, sizeof secret);
    fr_blake2b_update(&h, head, sizeof *head);
    fr_blake2b_update(&h, payload, head->n_bytes);
    fr_blake2b_final(&h, out);
}

/* The whole file, checked; NULL when it is not what was written. */
static void *
read_entry(int fd, const struct stat *st, const struct fr_key *key, struct fr_key_origin *origin, size_t *n)
{
    struct entry_head head;
    uint8_t           stored[FR_DIGEST_BYTES], computed[FR_DIGEST_BYTES];
    void             *payload;
    size_t            frame = sizeof head + sizeof stored;

    if (st->st_size < (off_t)frame || st->st_size > MAX_ENTRY ||
        !read_all(fd, &head, sizeof head) || memcmp(head.magic, magic, sizeof magic) ||
        !fr_key_equal(&head.key, key) || head.n_bytes != (uint64_t)st->st_size - frame)
        return NULL;
    if (!(payload = fr_malloc(head.n_bytes)))
        return NULL;
    if (read_all(fd, payload, head.n_bytes) && read_all(fd, stored, sizeof stored)) {
        seal(&head, payload, computed);
        if (!memcmp(stored, computed, sizeof stored)) {
            *n = head.n_bytes;
            if (origin)
                *origin = head.origin;
            return payload;
        }
    }
    fr_free(payload);
    return NULL;
}

static struct held *
find_held(const struct fr_key *key)
{
    struct held *h = held;

    while (h && !fr_key_equal(&h->key, key))
        h = h->next;
    return h;
}

static fr_status
get_held(const struct fr_key *key, void **bytes, size_t *n)
{
    struct held *h = find_held(key);

    if (!h || !(*bytes = fr_malloc(h->n_bytes)))
        return FR_EINDEX;
    *n = h->n_bytes;
    memcpy(*bytes, h->bytes, h->n_bytes);
    return FR_OK;
}

fr_status
fr_cache_get(const struct fr_key *key, struct fr_key_origin *origin, void **bytes, size_t *n, struct fr_err *err)
{
    char        name[NAME_LEN];
    struct stat file;
    int         dir, fd = -1;
    fr_status   st = FR_EINDEX;

    pthread_mutex_lock(&lock);
    if ((dir = begin(err)) < 0) {
        st = origin ? FR_EINDEX : get_held(key, bytes, n);
        goto out;
    }
    entry_name(key, name);
    if ((fd = open_private(dir, name, &file)) < 0) {
        if (errno != EPERM && errno != ELOOP)
            goto out;
    } else if (file.st_nlink == 1 && /* another name may be somebody else's */
               (*bytes = read_entry(fd, &file, key, origin, n))) {
        st = FR_OK;
        if (time(NULL) - file.st_mtime > TOUCH_AFTER_S)
            futimens(fd, NULL);
        goto out;
    }
    st = fr_fail(err, FR_EBUG, "%s/%s is damaged or not this user's", directory, name);
    unlinkat(dir, name, 0);
out:
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    pthread_mutex_unlock(&lock);
    return st;
}

void
fr_cache_drop(const struct fr_key *key)
{
    char          name[NAME_LEN];
    struct fr_err err;
    int           dir;

    pthread_mutex_lock(&lock);
    if ((dir = begin(&err)) >= 0) {
        entry_name(key, name);
        unlinkat(dir, name, 0);
        close(dir);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- size ------------------------------------------------------------------------------------ */

struct listed {
    char            name[NAME_LEN];
    struct timespec used;
    uint64_t        n_bytes;
};
struct listing {
    struct listed *files;
    size_t         n, cap;
    uint64_t       n_bytes;
};

/* All entries; unfinished files that nobody will finish go. */
static void
list_entries(int dir, struct listing *l)
{
    int            copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *d = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *e;
    struct stat    st;

    if (!d && copy >= 0)
        close(copy);
    while (d && (e = readdir(d))) {
        bool tmp = !strncmp(e->d_name, ".tmp-", 5);

        if ((!tmp && !is_entry(e->d_name)) || fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (tmp) {
            if (time(NULL) - st.st_mtime > STALE_TMP_S)
                unlinkat(dir, e->d_name, 0);
            continue;
        }
        if (!FR_GROW(l->files, l->cap, l->n + 1))
            break;
        memcpy(l->files[l->n].name, e->d_name,
               strlen(e->d_name) + 1); /* is_entry knows its length */
        l->files[l->n].used = st.st_mtim;
        l->files[l->n].n_bytes = (uint64_t)st.st_size;
        l->n_bytes += (uint64_t)st.st_size;
        l->n++;
    }
    if (d)
        closedir(d);
}

static int
oldest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct listed *)a)->used,
                          *y = &((const struct listed *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void
keep_below_cap(int dir, size_t just_written)
{
    uint64_t       cap = (uint64_t)fr_env.cache_mb << 20;
    struct listing l = {NULL, 0, 0, 0};

    /* Looking at all files after each one written would cost more than being a sixteenth over. */
    if (written_since_scan != UINT64_MAX) {
        written_since_scan += just_written;
        if (written_since_scan < cap / 16)
            return;
    }
    written_since_scan = 0;
    list_entries(dir, &l);
    if (l.n_bytes > cap) {
        qsort(l.files, l.n, sizeof *l.files, oldest_first);
        for (size_t i = 0; i < l.n && l.n_bytes > cap - cap / 10; i++) {
            unlinkat(dir, l.files[i].name, 0);
            l.n_bytes -= l.files[i].n_bytes;
        }
    }
    fr_free(l.files);
}

/* Lock held. */
static fr_status
hold(const struct fr_key *key, const void *bytes, size_t n, struct fr_err *err)
{
    struct held *h = find_held(key);

    if (h && h->n_bytes == n && !memcmp(h->bytes, bytes, n))
        return FR_OK;
    if (!(h = fr_malloc(sizeof *h + n)))
        return fr_fail(err, FR_ENOMEM, "a kernel of %zu bytes", n);
    h->key = *key;
    h->n_bytes = n;
    memcpy(h->bytes, bytes, n);
    h->next = held; /* before others with its key */
    held = h;
    return FR_OK;
}

static fr_status
put(const struct fr_key *key, const struct fr_key_origin *origin, const void *bytes, size_t n, bool or_hold,
    struct fr_err *err)
{
    struct entry_head head = {.key = *key, .n_bytes = n};
    uint8_t           digest[FR_DIGEST_BYTES];
    struct part       parts[] = {{&head, sizeof head}, {bytes, n}, {digest, sizeof digest}};
    char              name[NAME_LEN];
    int               dir;
    fr_status         st = FR_EINDEX;

    pthread_mutex_lock(&lock);
    if ((dir = begin(err)) < 0) {
        st = or_hold ? hold(key, bytes, n, err) : FR_EINDEX;
        goto out;
    }
    if (origin)
        head.origin = *origin;
    memcpy(head.magic, magic, sizeof magic);
    seal(&head, bytes, digest);
    entry_name(key, name);
    st = write_file(dir, name, parts, FR_LEN(parts), true, err);
    if (st == FR_OK)
        keep_below_cap(dir, n + sizeof head + sizeof digest);
    close(dir);
out:
    pthread_mutex_unlock(&lock);
    return st;
}

fr_status
fr_cache_put(const struct fr_key *key, const struct fr_key_origin *origin, const void *bytes, size_t n, struct fr_err *err)
{
    return put(key, origin, bytes, n, false, err);
}

fr_status
fr_cache_hold(const struct fr_key *key, const struct fr_key_origin *origin, const void *bytes, size_t n, struct fr_err *err)
{
    return put(key, origin, bytes, n, true, err);
}

fr_status
fr_cache_keys(struct fr_key **keys, size_t *n, struct fr_err *err)
{
    struct listing l = {NULL, 0, 0, 0};
    int            dir;
    fr_status      st = FR_OK;

    pthread_mutex_lock(&lock);
    if ((dir = begin(err)) < 0) {
        st = fr_fail(err, FR_EOS, "there is no kernel cache on disk (frit.cache.info() says where)");
        goto out;
    }
    list_entries(dir, &l);
    close(dir);
    qsort(l.files, l.n, sizeof *l.files, oldest_first);
    if (!(*keys = fr_malloc(l.n * sizeof **keys + 1)))
        st = fr_fail(err, FR_ENOMEM, "a list of %zu kernels", l.n);
    for (size_t i = 0; st == FR_OK && i < l.n; i++)
        (*keys)[i] = key_of_entry(l.files[i].name);
    *n = l.n;
out:
    pthread_mutex_unlock(&lock);
    fr_free(l.files);
    return st;
}

void
fr_cache_info(char *dir_name, int cap, uint64_t *n_entries, uint64_t *n_bytes)
{
    struct listing l = {NULL, 0, 0, 0};
    struct fr_err  err;
    int            dir;

    pthread_mutex_lock(&lock);
    if ((dir = begin(&err)) >= 0) {
        list_entries(dir, &l);
        close(dir);
    }
    snprintf(dir_name, (size_t)cap, "%s", directory);
    pthread_mutex_unlock(&lock);
    *n_entries = l.n;
    *n_bytes = l.n_bytes;
    fr_free(l.files);
}

fr_status
fr_cache_clear(struct fr_err *err)
{
    struct listing l = {NULL, 0, 0, 0};
    int            dir;
    fr_status      st = FR_OK;

    pthread_mutex_lock(&lock);
    for (struct held *h = held; h; h = held) {
        held = h->next;
        fr_free(h);
    }
    if ((dir = begin(err)) >= 0) {
        list_entries(dir, &l);
        for (size_t i = 0; i < l.n; i++)
            if (unlinkat(dir, l.files[i].name, 0) < 0 && errno != ENOENT)
                st = odd(err, directory, strerror(errno));
        close(dir);
    } else if (wanted[0]) {
        st = FR_EOS;
    }
    pthread_mutex_unlock(&lock);
    fr_free(l.files);
    return st;
}
