/* jit/helper.h -- one helper process (jit/cc/main.c): started, fed, listened to, ended. Called by
 * the manager thread of jit/compile.c only; nothing here blocks for longer than a send. */
#ifndef FR_JIT_HELPER_H
#define FR_JIT_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "jit/cc/protocol.h"

enum { FR_HELPER_PATH = 1024 };

/* What helpers are started with; filled once, by the thread that imports us. */
struct fr_helper_setup {
    char  program[FR_HELPER_PATH];
    char  tmp_base[FR_HELPER_PATH];
    char *env[16];             /* NULL-terminated; without TMPDIR */
};
/* Takes PATH and the like from this process's environment. FR_ENOMEM. */
fr_status fr_helper_prepare(struct fr_helper_setup *, const char *program, struct fr_err *);

struct fr_helper {
    pid_t   pid;               /* 0: not running */
    int     fd;
    char    tmpdir[FR_HELPER_PATH];
    /* the frame that is coming in */
    struct fr_packet head;
    char   *bytes;
    size_t  n_in;              /* of head and bytes together */
    /* kept by compile_helpers.c */
    int     n_compiles;
    int64_t since_us;          /* start of what it is doing, or of idleness */
    bool    greeted;
};

fr_status fr_helper_start(struct fr_helper *, const struct fr_helper_setup *, struct fr_err *);
/* Asks for one object with the code of `n` packed nests; FR_EOS when the helper is gone. */
struct fr_packed_nest {
    const void *bytes;
    size_t      n_bytes;
    char        name[FR_KERNEL_NAME];
};
fr_status fr_helper_request(struct fr_helper *, const char *const *features,
                            const struct fr_packed_nest *, uint32_t n, struct fr_err *);
/* Reads what is there. *ready: a whole frame is in head and bytes (NUL after its end), until
 * fr_helper_consume. FR_EOS when the helper is gone or talks nonsense. */
fr_status fr_helper_receive(struct fr_helper *, bool *ready, struct fr_err *);
void      fr_helper_consume(struct fr_helper *);
/* Ends it and everything that it started, waits, removes its directory. */
void      fr_helper_stop(struct fr_helper *);
/* In a forked child: lets go of a helper that belongs to the parent. */
void      fr_helper_abandon(struct fr_helper *);
/* Removes directories that killed processes of this user have left behind. */
void      fr_helper_sweep(const struct fr_helper_setup *);

#endif
