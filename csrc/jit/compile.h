/* jit/compile.h -- machine code for nests: cache look-up and compilation behind the first run.
 *
 * Called by runtime/plan execution: fr_compile_want() when a nest is worth compiling. Everything else
 * happens on the manager thread (which never touches Python) and in helper processes; when code is
 * ready it is stored through `ready`, and the next launch uses it. */
#ifndef FR_JIT_COMPILE_H
#define FR_JIT_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "jit/loop.h"

/* Asks for code of `nest` (packed form copied at once). `lookup_only` looks in the disk cache and does
 * not compile. `ready(arg, code)` is called once on the manager thread, code NULL if there is none;
 * code lives until fr_compile_release. Never blocks, never fails visibly. A manager that is asleep stays so until
 * somebody nudges it. */
void fr_compile_want(const struct fr_nest *, bool lookup_only,
                     void (*ready)(void *arg, const struct fr_nest_code *code), void *arg);
/* Whoever was given code does not run it any more: what nobody wants may be unloaded. On any thread, without a lock. */
void fr_compile_release(const struct fr_nest_code *);
/* Wakes the manager thread if it is asleep and something is wanted: a system call. */
void fr_compile_nudge(void);
/* Starts the manager thread, if it does not run: it takes as long as a small evaluation, so better before the first
 * of a loop than within. */
void fr_compile_start(void);
/* Waits (in slices, asking interrupted() if not NULL) until nothing is under way, at most `timeout_s`
 * seconds; false on time-out. For tests, FRIT_JIT=always, frit.cache. */
bool fr_compile_wait(double timeout_s, bool (*interrupted)(void));

struct fr_compile_stats {
    uint64_t n_compiled, n_failed, n_disk_hits, n_disk_misses, n_bad_entries, n_helpers_started;
    uint64_t compile_us;
    uint64_t n_pending;
    uint64_t n_objects;        /* of the kernels compiled: several that wait share one */
    uint64_t n_loaded;         /* kernels whose code is in memory, */
    uint64_t n_unloaded;       /* and those whose code was, and went */
    uint64_t code_bytes, code_maps;
};
void fr_compile_stats(struct fr_compile_stats *);

/* NULL when compilation works or has not been tried, else why it does not (no libgccjit, no `as`), or not now. */
const char *fr_compile_unavailable(void);
/* Compiling does not work now, but may again: who has waited for long may ask. */
bool fr_compile_is_paused(void);
/* Path of the helper program (set by bind at import) and gcc -m options of this machine. */
void fr_compile_configure(const char *helper_path, const char *const *features);
/* Disk cache: where, how much, and emptying it. `dir` is empty when memory only. */
void fr_cache_info(char *dir, int cap, uint64_t *n_entries, uint64_t *n_bytes);
fr_status fr_cache_clear(struct fr_err *);
/* Ends helpers and the manager thread, quietly. */
void fr_compile_stop(void);

#endif
