#include "jit/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/processors.h"
#include "base/tune.h"

enum { SEND_PATIENCE_MS = 10000 };

/* ---- what a helper is started with ----------------------------------------------------------- */

static const char *const inherited[] = {"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH",
                                        "GCC_EXEC_PREFIX"};

static char *
setting(const char *name, const char *value)
{
    size_t n = strlen(name) + strlen(value) + 2;
    char  *s = fr_malloc(n);

    if (s)
        snprintf(s, n, "%s=%s", name, value);
    return s;
}

static void
forget_setup(struct fr_helper_setup *setup)
{
    for (size_t i = 0; i < FR_LEN(setup->env); i++)
        fr_free(setup->env[i]);
    *setup = (struct fr_helper_setup){.program = ""};
}

fr_status
fr_helper_prepare(struct fr_helper_setup *setup, const char *program, struct fr_err *err)
{
    const char *tmp = getenv("TMPDIR");
    int         n = 0;

    forget_setup(setup);
    if (!tmp || *tmp != '/')
        tmp = "/tmp";
    snprintf(setup->program, sizeof setup->program, "%s", program);
    snprintf(setup->tmp_base, sizeof setup->tmp_base, "%s", tmp);
    for (size_t i = 0; i < FR_LEN(inherited); i++) {
        const char *value = getenv(inherited[i]);

        if (value && !(setup->env[n++] = setting(inherited[i], value)))
            goto full;
    }
    if (!(setup->env[n++] = setting("LC_ALL", "C")) ||
        (fr_env.gccjit[0] && !(setup->env[n++] = setting("FRIT_GCCJIT", fr_env.gccjit))))
        goto full;
    return FR_OK;
full:
    forget_setup(setup);
    return fr_fail(err, FR_ENOMEM, "the helper's environment");
}

/* ---- directories ----------------------------------------------------------------------------- */

static void
remove_directory(int parent, const char *name, int depth)
{
    int            fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR           *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((d = readdir(dir))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (unlinkat(fd, d->d_name, 0) < 0 && depth > 0)
            remove_directory(fd, d->d_name, depth - 1);
    }
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static fr_status
make_directory(struct fr_helper *h, const struct fr_helper_setup *setup, struct fr_err *err)
{
    int n = snprintf(h->tmpdir, sizeof h->tmpdir, "%s/" FR_TMPDIR_PREFIX "%ld-XXXXXX", setup->tmp_base,
                     (long)getpid());

    if (n < (int)sizeof h->tmpdir && !fr_alloc_may_fail() && mkdtemp(h->tmpdir))
        return FR_OK;
    h->tmpdir[0] = '\0';
    return fr_fail(err, FR_EOS, "no temporary directory in %s: %s", setup->tmp_base, strerror(errno));
}

void
fr_helper_sweep(const struct fr_helper_setup *setup)
{
    DIR           *dir = opendir(setup->tmp_base);
    struct dirent *d;
    struct stat    st;

    while (dir && (d = readdir(dir))) {
        long pid;

        if (strncmp(d->d_name, FR_TMPDIR_PREFIX, strlen(FR_TMPDIR_PREFIX)))
            continue;
        pid = strtol(d->d_name + strlen(FR_TMPDIR_PREFIX), NULL, 10);
        if (pid <= 0 || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_uid != geteuid() || !S_ISDIR(st.st_mode))
            continue;
        if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
            remove_directory(dirfd(dir), d->d_name, 2);
    }
    if (dir)
        closedir(dir);
}

/* ---- starting and ending --------------------------------------------------------------------- */

/* Who does not wait for kernels is interpreting them, on the same processors. With a single one, niceness is also the
 * share of it that the helper gets beside a loop that never waits: a tenth; with 19 it would take seconds to come through
 * with what takes 50 ms. */
static int
niceness_of_helpers(void)
{
    return fr_env_waits_for_code() ? 0 : fr_processors() == 1 ? 10 : (int)fr_tune.helper_nice;
}

/* All signals at their defaults and unblocked, its own process group (Ctrl-C is not for helpers,
 * and the group can be killed with its assembler), the socket as descriptor 0, nothing else. */
static int
spawn(struct fr_helper *h, const struct fr_helper_setup *setup, int socket, char *tmpdir)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          attr;
    sigset_t                   none, all;
    char                       parent[24];
    char                       niceness[4];
    char                      *argv[] = {"frit-cc", parent, niceness, NULL};
    char                      *env[FR_LEN(setup->env) + 2];
    int                        n = 0, rc;

    snprintf(niceness, sizeof niceness, "%d", niceness_of_helpers());
    for (; setup->env[n]; n++)
        env[n] = setup->env[n];
    env[n++] = tmpdir;
    env[n] = NULL;
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    sigemptyset(&none);
    sigfillset(&all);
    if (fr_alloc_may_fail() || (rc = posix_spawn_file_actions_init(&files)))
        return ENOMEM;
    if ((rc = posix_spawnattr_init(&attr))) {
        posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    if (!(rc = posix_spawn_file_actions_adddup2(&files, socket, 0)) &&
        !(rc = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0)) &&
        !(rc = posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0)) &&
#if defined __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
        !(rc = posix_spawn_file_actions_addclosefrom_np(&files, 3)) &&
#endif
#endif
        !(rc = posix_spawnattr_setsigmask(&attr, &none)) && !(rc = posix_spawnattr_setsigdefault(&attr, &all)) &&
        !(rc = posix_spawnattr_setpgroup(&attr, 0)) &&
        !(rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP)))
        rc = posix_spawn(&h->pid, setup->program, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

fr_status
fr_helper_start(struct fr_helper *h, const struct fr_helper_setup *setup, struct fr_err *err)
{
    int       pair[2] = {-1, -1}, rc;
    char     *tmpdir = NULL;
    fr_status st;

    *h = (struct fr_helper){.fd = -1};
    TRY(make_directory(h, setup, err));
    if (!(tmpdir = setting("TMPDIR", h->tmpdir))) {
        st = fr_fail(err, FR_ENOMEM, "starting %s", setup->program);
        goto out;
    }
    if (fr_alloc_may_fail() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        st = fr_fail(err, FR_EOS, "no socket for a compiler helper: %s", strerror(errno));
        goto out;
    }
    if ((rc = spawn(h, setup, pair[1], tmpdir))) {
        h->pid = 0;
        st = fr_fail(err, FR_EOS, "cannot start %s: %s", setup->program, strerror(rc));
        goto out;
    }
    h->fd = pair[0];
    pair[0] = -1;
out:
    if (pair[0] >= 0)
        close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
    fr_free(tmpdir);
    if (st != FR_OK)
        fr_helper_stop(h);
    return st;
}

void
fr_helper_stop(struct fr_helper *h)
{
    if (h->fd >= 0)
        close(h->fd);
    /* Only a child that is still there may be killed by its number.  ECHILD: this process ignores
     * SIGCHLD, or somebody else has waited for the helper. */
    if (h->pid > 0 && waitpid(h->pid, NULL, WNOHANG) == 0) {
        kill(-h->pid, SIGKILL);
        while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (h->tmpdir[0])
        remove_directory(AT_FDCWD, h->tmpdir, 2);
    fr_free(h->bytes);
    *h = (struct fr_helper){.fd = -1};
}

void
fr_helper_abandon(struct fr_helper *h)
{
    if (h->fd >= 0)
        close(h->fd);
    fr_free(h->bytes);
    *h = (struct fr_helper){.fd = -1};
}

/* ---- talking --------------------------------------------------------------------------------- */

static fr_status
gone(struct fr_err *err, const char *doing)
{
    return fr_fail(err, FR_EOS, "the compiler helper is gone (%s)", doing);
}

/* Sends everything, waiting while the socket is full; a helper reads requests as a whole. */
static fr_status
send_all(struct fr_helper *h, const void *bytes, size_t n, struct fr_err *err)
{
    const char *p = bytes;

    while (n) {
        struct pollfd pfd = {h->fd, POLLOUT, 0};
        ssize_t       k = fr_alloc_may_fail() ? (errno = EPIPE, -1)
                                              : send(h->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (k < 0 && (errno == EINTR || errno == EAGAIN)) {
            if (errno == EAGAIN && poll(&pfd, 1, SEND_PATIENCE_MS) == 0)
                return gone(err, "it does not read");
            continue;
        }
        if (k < 0)
            return gone(err, strerror(errno));
        p += k;
        n -= (size_t)k;
    }
    return FR_OK;
}

fr_status
fr_helper_request(struct fr_helper *h, const char *const *features,
                  const struct fr_packed_nest *nest, uint32_t n, struct fr_err *err)
{
    struct fr_packet head = {FR_PACKET_MAGIC, FR_PACKET_COMPILE, 2 * sizeof(uint32_t)};
    uint32_t        count = 0;
    uint64_t        size;
    fr_status       st;

    for (; features[count]; count++)
        head.n_bytes += strlen(features[count]) + 1;
    for (uint32_t i = 0; i < n; i++)
        head.n_bytes += strlen(nest[i].name) + 1 + sizeof size + nest[i].n_bytes;
    TRY(send_all(h, &head, sizeof head, err));
    TRY(send_all(h, &count, sizeof count, err));
    for (uint32_t i = 0; i < count; i++)
        TRY(send_all(h, features[i], strlen(features[i]) + 1, err));
    TRY(send_all(h, &n, sizeof n, err));
    for (uint32_t i = 0; i < n; i++) {
        size = nest[i].n_bytes;
        TRY(send_all(h, nest[i].name, strlen(nest[i].name) + 1, err));
        TRY(send_all(h, &size, sizeof size, err));
        TRY(send_all(h, nest[i].bytes, nest[i].n_bytes, err));
    }
out:
    return st;
}

fr_status
fr_helper_receive(struct fr_helper *h, bool *ready, struct fr_err *err)
{
    *ready = false;
    for (;;) {
        size_t  n_head = sizeof h->head;
        size_t  want = h->n_in < n_head ? n_head - h->n_in : n_head + h->head.n_bytes - h->n_in;
        char   *to = h->n_in < n_head ? (char *)&h->head + h->n_in : h->bytes + (h->n_in - n_head);
        ssize_t k;

        if (h->n_in >= n_head && !want) {
            *ready = true;
            return FR_OK;
        }
        k = fr_alloc_may_fail() ? 0 : recv(h->fd, to, want, MSG_DONTWAIT);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN)
            return FR_OK;
        if (k <= 0)
            return gone(err, k ? strerror(errno) : "it ended");
        h->n_in += (size_t)k;
        if (h->n_in != n_head)
            continue;
        if (h->head.magic != FR_PACKET_MAGIC || h->head.n_bytes > FR_PACKET_MAX)
            return gone(err, "it talks nonsense");
        if (!(h->bytes = fr_calloc(1, h->head.n_bytes + 1)))
            return fr_fail(err, FR_ENOMEM, "%zu bytes of machine code", (size_t)h->head.n_bytes);
    }
}

void
fr_helper_consume(struct fr_helper *h)
{
    fr_free(h->bytes);
    h->bytes = NULL;
    h->n_in = 0;
}
