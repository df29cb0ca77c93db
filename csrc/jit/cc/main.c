/* jit/cc/main.c -- frit-cc, the helper program: nests in, shared objects out.
 *
 *     frit-cc PARENT_PID NICENESS    socket on descriptor 0, TMPDIR a directory of its own
 *
 * libgccjit runs here and nowhere else: it replaces signal handlers, leaks, exits when an assembler
 * is missing, and may crash. It also keeps things from one compilation to the next that it should
 * not (GCC 12: an "unrecognizable insn" the second time a loop converts f64 to i32 for SSE), so
 * each one runs in a forked child, always as the first. Started by jit/helper.c as the leader of a
 * group of its own; when the parent closes the channel or dies, it takes its group and TMPDIR with it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/background.h"
#include "base/blake2b.h"
#include "jit/cc/protocol.h"
#include "jit/emit_gcc.h"

enum { MAX_FEATURES = 64, TEXT_LEN = 700, CHANNEL = 3, LEAST_ROOM = 1 << 20 /* bytes */ };

static char tmpdir[512];
static char log_path[600];

/* ---- a quiet, small, short-lived process ----------------------------------------------------- */

/* Removes what a compilation left behind, but for `keep`; `depth` is that of libgccjit's own
 * directories. */
static void
empty_directory(const char *path, int depth, const char *keep)
{
    DIR           *dir = opendir(path);
    struct dirent *d;
    char           name[1024];

    if (!dir)
        return;
    while ((d = readdir(dir))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") || !strcmp(d->d_name, keep))
            continue;
        if (snprintf(name, sizeof name, "%s/%s", path, d->d_name) >= (int)sizeof name)
            continue;
        if (unlink(name) < 0 && depth > 0) {
            empty_directory(name, depth - 1, "");
            rmdir(name);
        }
    }
    closedir(dir);
}

/* Compilers and assemblers may still be writing into the directory: the last child, which stands in a group of its own,
 * kills theirs before it empties it. A killed one may finish the system call that it is in, so that once is not enough. */
static void __attribute__((noreturn))
leave(void)
{
    pid_t group = getpgrp(), self = getpid(), last = fork();

    if (last > 0)
        _exit(0);
    if (last == 0 && group == self && setpgid(0, 0) == 0)
        kill(-group, SIGKILL);
    for (int i = 0; i < 500; i++) {
        empty_directory(tmpdir, 2, "");
        if (rmdir(tmpdir) == 0 || errno == ENOENT)
            break;
        usleep(10000);
    }
    _exit(0);
}

/* The parent is gone. It is told only while this process waits, never in the middle of malloc or of a directory. */
static void
on_orphaned(int sig)
{
    (void)sig;
    leave();
}

static void
hear_of_orphaning(bool hear)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(hear ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

static void
on_child(int sig)
{
    (void)sig;
}

static void
close_others(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, CHANNEL + 1, ~0u, 0) == 0)
        return;
#endif
    struct rlimit lim = {0, 0};

    getrlimit(RLIMIT_NOFILE, &lim);
    for (int fd = CHANNEL + 1; fd < 65536 && (rlim_t)fd < lim.rlim_cur; fd++)
        close(fd);
}

static bool
settle_descriptors(void)
{
    int fd;

    /* The compiler's children must not hold the channel open. */
    if (dup2(0, CHANNEL) < 0 || fcntl(CHANNEL, F_SETFD, FD_CLOEXEC) < 0)
        return false;
    close_others();
    snprintf(log_path, sizeof log_path, "%s/log", tmpdir);
    if ((fd = open("/dev/null", O_RDWR)) < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
        return false;
    close(fd);
    fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (dup2(fd < 0 ? 0 : fd, 2) < 0) /* where the disk is full, compilations will fail, and say why */
        return false;
    if (fd > CHANNEL)
        close(fd);
    return true;
}

static void
limit(int what, rlim_t n)
{
    struct rlimit lim;

    if (getrlimit(what, &lim) < 0)
        return;
    lim.rlim_cur = lim.rlim_max != RLIM_INFINITY && lim.rlim_max < n ? lim.rlim_max : n;
    setrlimit(what, &lim);
}

static bool
settle_process(const char *parent, const char *niceness)
{
    const char *dir = getenv("TMPDIR"), *name = dir ? strrchr(dir, '/') : NULL;
    sigset_t    ended;

    /* It will be emptied: nobody else's directory. */
    if (!name || strncmp(name + 1, FR_TMPDIR_PREFIX, strlen(FR_TMPDIR_PREFIX)) || strlen(dir) >= sizeof tmpdir)
        return false;
    strcpy(tmpdir, dir);
    hear_of_orphaning(false);
    signal(SIGTERM, on_orphaned);
    /* Comes while await() waits, and then only. */
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    signal(SIGCHLD, on_child);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != atoi(parent))
        return false;
    umask(077);
    if (atoi(niceness))
        fr_background(atoi(niceness));
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, (rlim_t)256 << 20);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow takes terabytes of addresses */
    limit(RLIMIT_AS, (rlim_t)4 << 30);
#endif
    limit(RLIMIT_STACK, (rlim_t)128 << 20); /* deep expressions */
    return settle_descriptors() && chdir(tmpdir) == 0;
}

/* ---- the channel ----------------------------------------------------------------------------- */

static bool
write_all(const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n) {
        ssize_t k = write(CHANNEL, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool
read_all(void *bytes, size_t n)
{
    char *p = bytes;

    while (n) {
        ssize_t k;

        hear_of_orphaning(true);
        k = read(CHANNEL, p, n);
        hear_of_orphaning(false);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool
reply(enum fr_packet_kind kind, const void *bytes, size_t n)
{
    struct fr_packet head = {FR_PACKET_MAGIC, kind, n};

    return write_all(&head, sizeof head) && write_all(bytes, n);
}

static bool reply_text(enum fr_packet_kind kind, const char *text) { return reply(kind, text, strlen(text)); }

/* ---- the compiler ---------------------------------------------------------------------------- */

static bool
on_path(const char *program)
{
    const char *path = getenv("PATH");
    char        name[1024];

    while (path && *path) {
        size_t n = strcspn(path, ":");

        snprintf(name, sizeof name, "%.*s/%s", (int)n, path, program);
        if (n && access(name, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

/* What the compiler wrote to stderr since it was started, as one line behind `text`. */
static void
append_log(char *text, size_t cap)
{
    size_t  n = strlen(text);
    int     fd = open(log_path, O_RDONLY);
    ssize_t k;

    if (fd < 0 || n + 2 >= cap) {
        if (fd >= 0)
            close(fd);
        return;
    }
    k = read(fd, text + n + 1, cap - n - 2);
    close(fd);
    if (k <= 0)
        return;
    text[n] = ' ';
    text[n + 1 + (size_t)k] = '\0';
    for (char *p = text + n; *p; p++)
        if (*p == '\n')
            *p = ' ';
}

/* Missing tools make every compilation fail; the parent then stops asking. */
static bool
tools_missing(char *text, size_t cap)
{
    const char *tool = !on_path("as") ? "as" : !on_path("ld") ? "ld" : NULL;

    if (!tool)
        return false;
    snprintf(text, cap, "there is no `%s` in PATH (package binutils)", tool);
    return true;
}

/* Compilers that cannot write fail in many ways. */
static bool
disk_is_full(char *text, size_t cap)
{
    struct statvfs fs;

    if (statvfs(tmpdir, &fs) < 0 || (fs.f_bavail * fs.f_frsize >= LEAST_ROOM && (fs.f_favail || !fs.f_files)))
        return false;
    snprintf(text, cap, "there is no room for the compiler's files in %.*s", (int)(strrchr(tmpdir, '/') - tmpdir), tmpdir);
    return true;
}

static bool
load_compiler(struct fr_gccjit *g, char *text, size_t cap)
{
    const char *path = getenv("FRIT_GCCJIT");
    void       *lib = dlopen(path ? path : "libgccjit.so.0", RTLD_NOW | RTLD_LOCAL);
    void       *sym;

    if (!lib) {
        snprintf(text, cap, "no libgccjit: %s", dlerror());
        return false;
    }
#define LOOK_UP(result, name, args)                                                                \
    if (!(sym = dlsym(lib, "gcc_jit_" #name))) {                                                   \
        snprintf(text, cap, "this libgccjit is too old: it lacks gcc_jit_" #name);                 \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&g->name, &sym, sizeof sym);
    FR_GCCJIT_FUNCS(LOOK_UP)
#undef LOOK_UP
    sym = dlsym(lib, "gcc_jit_context_set_bool_print_errors_to_stderr");
    memcpy(&g->context_set_bool_print_errors_to_stderr, &sym, sizeof sym);
    sym = dlsym(lib, "gcc_jit_lvalue_set_alignment");
    memcpy(&g->lvalue_set_alignment, &sym, sizeof sym);
    return true;
}

/* The compiler is named by the build-id that its linker derived from its contents. */
struct build_id {
    ElfW(Addr) addr; /* of something inside the library */
    struct fr_blake2b hash;
    bool              found;
};

static int
find_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct build_id *id = arg;
    bool             mine = false;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        mine |= ph->p_type == PT_LOAD && id->addr - info->dlpi_addr - ph->p_vaddr < ph->p_memsz;
    }
    if (!mine)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr), *end = p + ph->p_memsz;

        while (ph->p_type == PT_NOTE && end - p >= (long)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)p;
            const char *name = p + sizeof *note;
            const char *desc = name + ((note->n_namesz + 3) & ~3u);

            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                fr_blake2b_update(&id->hash, desc, note->n_descsz);
                id->found = note->n_descsz >= 16;
            }
            p = desc + ((note->n_descsz + 3) & ~3u);
        }
    }
    return 1;
}

static bool
hash_file(const char *path, struct fr_blake2b *hash)
{
    char    buf[65536];
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;

    if (fd < 0)
        return false;
    while ((n = read(fd, buf, sizeof buf)) > 0)
        fr_blake2b_update(hash, buf, (size_t)n);
    close(fd);
    return n == 0;
}

static bool
say_hello(const struct fr_gccjit *g)
{
    struct build_id id = {.found = false};
    struct {
        uint8_t digest[FR_DIGEST_BYTES];
        char    path[4096];
    } hello = {{0}, {0}};
    Dl_info info;
    void   *inside;

    memcpy(&inside, &g->context_acquire, sizeof inside);
    if (!dladdr(inside, &info) || !realpath(info.dli_fname, hello.path))
        return reply_text(FR_PACKET_NO_COMPILER, "libgccjit cannot be identified");
    id.addr = (ElfW(Addr))inside;
    fr_blake2b_init(&id.hash, FR_DIGEST_BYTES, NULL, 0);
    dl_iterate_phdr(find_build_id, &id);
    if (!id.found) {
        fr_blake2b_init(&id.hash, FR_DIGEST_BYTES, NULL, 0);
        if (!hash_file(hello.path, &id.hash))
            return reply_text(FR_PACKET_NO_COMPILER, "libgccjit cannot be read");
    }
    fr_blake2b_final(&id.hash, hello.digest);
    return reply(FR_PACKET_HELLO, &hello, FR_DIGEST_BYTES + strlen(hello.path));
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool
send_object(const char *path)
{
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    char       *bytes = NULL;
    bool        ok = false;
    ssize_t     n = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size < FR_PACKET_MAX &&
        (bytes = fr_malloc((size_t)st.st_size)))
        n = read(fd, bytes, (size_t)st.st_size);
    if (fd >= 0)
        close(fd);
    if (bytes && n == st.st_size)
        ok = reply(FR_PACKET_OBJECT, bytes, (size_t)n);
    else
        ok = reply_text(FR_PACKET_FAILED, "the compiler's output cannot be read");
    fr_free(bytes);
    unlink(path);
    return ok;
}

/* Only options that name a feature of the processor. */
static bool
feature_ok(const char *s)
{
    if (strncmp(s, "-m", 2) || strlen(s) > 40)
        return false;
    return s[2] && strspn(s + 2, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(s + 2);
}

/* Splits a request; returns where the nests begin, NULL when it is malformed. */
static const char *
parse_features(const char *p, size_t n, const char **features)
{
    const char *end = p + n;
    uint32_t    count;

    if (n < sizeof count)
        return NULL;
    memcpy(&count, p, sizeof count);
    p += sizeof count;
    if (count >= MAX_FEATURES)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const char *zero = memchr(p, 0, (size_t)(end - p));

        if (!zero || !feature_ok(p))
            return NULL;
        features[i] = p;
        p = zero + 1;
    }
    features[count] = NULL;
    return p;
}

/* Copies `size` bytes from *p, and moves it on; false when there are not as many. */
static bool
take(const char **p, const char *end, void *to, size_t size)
{
    if ((size_t)(end - *p) < size)
        return false;
    memcpy(to, *p, size);
    *p += size;
    return true;
}

static void
free_nests(struct fr_named_nest *nests, int n)
{
    for (int i = 0; i < n; i++)
        fr_nest_free(nests[i].nest);
}

/* The nests of a request, from `p` on; the names point into it. */
static fr_status
parse_nests(const char *p, const char *end, struct fr_named_nest *nests, int *n, struct fr_err *err)
{
    uint32_t  count;
    uint64_t  size;
    fr_status st = FR_OK;

    *n = 0;
    if (!p || !take(&p, end, &count, sizeof count) || count < 1 || count > FR_BATCH_MAX)
        return fr_fail(err, FR_EBUG, "malformed request");
    for (uint32_t i = 0; i < count && st == FR_OK; i++) {
        const char *zero = memchr(p, 0, (size_t)(end - p));

        if (!zero || zero - p >= FR_KERNEL_NAME || strspn(p, "0123456789abcdef") != strlen(p))
            return fr_fail(err, FR_EBUG, "malformed request");
        nests[i].name = p;
        p = zero + 1;
        if (!take(&p, end, &size, sizeof size) || size > (uint64_t)(end - p))
            return fr_fail(err, FR_EBUG, "malformed request");
        if ((st = fr_nest_unpack(p, size, &nests[i].nest, err)) == FR_OK)
            ++*n;
        p += size;
    }
    return st;
}

/* The child: leaves an object, or the reason why there is none, in a file. */
static void __attribute__((noreturn))
compile_alone(const struct fr_gccjit *g, const struct fr_named_nest *nests, int n, const char *const *features)
{
    struct fr_err err = {FR_OK, ""};
    char          object[600], reason[600];
    FILE         *f;
    sigset_t      none;

    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    limit(RLIMIT_CPU, 200);
    snprintf(object, sizeof object, "%s/kernel.so", tmpdir);
    snprintf(reason, sizeof reason, "%s/reason", tmpdir);
    if (fr_emit_gcc(g, nests, n, features, object, &err) == FR_OK)
        _exit(0);
    if ((f = fopen(reason, "w"))) {
        fputs(err.text, f);
        fclose(f);
    }
    _exit(1);
}

/* How the child ended. Nobody waits for it any more once the channel is closed: the parent may have become another
 * program, which keeps its children. */
static int
await(pid_t child)
{
    struct pollfd channel = {CHANNEL, 0, 0};
    sigset_t      none;
    int           status = -1;

    sigemptyset(&none);
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0)
        if (ppoll(&channel, 1, NULL, &none) > 0)
            leave();
    return status;
}

static bool
reply_failure(void)
{
    char    text[TEXT_LEN] = "libgccjit gave up:", reason[600];
    int     fd;
    ssize_t n = 0;

    if (tools_missing(text, sizeof text))
        return reply_text(FR_PACKET_NO_COMPILER, text);
    if (disk_is_full(text, sizeof text))
        return reply_text(FR_PACKET_NO_ROOM, text);
    snprintf(reason, sizeof reason, "%s/reason", tmpdir);
    if ((fd = open(reason, O_RDONLY | O_CLOEXEC)) >= 0) {
        n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    append_log(text, sizeof text);
    return reply_text(FR_PACKET_FAILED, text);
}

static bool
compile(const struct fr_gccjit *g, const char *request, size_t n_bytes)
{
    const char          *features[MAX_FEATURES];
    struct fr_named_nest nests[FR_BATCH_MAX];
    struct fr_err        err;
    char                 path[600];
    pid_t                child;
    int                  n, status;
    bool                 ok;

    if (parse_nests(parse_features(request, n_bytes, features), request + n_bytes, nests, &n, &err) != FR_OK) {
        free_nests(nests, n);
        return reply_text(FR_PACKET_FAILED, err.text);
    }
    (void)!ftruncate(2, 0); /* the log shall speak of this one only */
    if ((child = fork()) == 0)
        compile_alone(g, nests, n, features);
    free_nests(nests, n);
    status = await(child);
    snprintf(path, sizeof path, "%s/kernel.so", tmpdir);
    ok = child > 0 && status == 0 ? send_object(path) : reply_failure();
    if (status != 0)
        empty_directory(tmpdir, 2, "log");
    return ok;
}

static bool
serve_one(const struct fr_gccjit *g)
{
    struct fr_packet head;
    char           *request;
    bool            ok;

    if (!read_all(&head, sizeof head) || head.magic != FR_PACKET_MAGIC ||
        head.kind != FR_PACKET_COMPILE || head.n_bytes > FR_PACKET_MAX)
        return false;
    if (!(request = fr_malloc(head.n_bytes + 1)))
        return false;
    ok = read_all(request, head.n_bytes) && compile(g, request, head.n_bytes);
    fr_free(request);
    return ok;
}

int
main(int argc, char **argv)
{
    static struct fr_gccjit g;
    char                    text[TEXT_LEN];

    if (argc != 3)
        return 2;
    if (!settle_process(argv[1], argv[2]))
        leave();
    if (!load_compiler(&g, text, sizeof text))
        reply_text(FR_PACKET_NO_COMPILER, text);
    else if (say_hello(&g))
        while (serve_one(&g))
            ;
    leave();
}
