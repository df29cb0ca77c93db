/* jit/compile_int.h -- what the files of the manager share: compile.c, its thread and who asks it; compile_job.c, a job
 * from its key to its answer; compile_helpers.c, who compiles.  Private to them.
 *
 * Whatever is said to happen to "the current job" happens to fr_manager.current: so a fork finds each job somewhere. */
#ifndef FR_JIT_COMPILE_INT_H
#define FR_JIT_COMPILE_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "jit/compile.h"
#include "jit/helper.h"
#include "jit/key.h"
#include "jit/memo.h"

enum {
    FR_MAX_HELPERS = 8,
    FR_MAX_FEATURES = 48,
};

struct fr_job {
    struct fr_job *next;
    void          *nest; /* packed */
    size_t         n_nest;
    int            n_stages;
    bool           lookup_only;
    void (*ready)(void *, const struct fr_nest_code *);
    void          *arg;
    struct fr_key  key;
    unsigned       compiler; /* for which the key was made; see n_compilers */
    bool           alone;    /* shares its object with no other nest: together there was none */
    int            n_tries;
};

struct fr_jobs {
    struct fr_job *first, *last;
};

/* Code by key; code.rows is NULL where compiling failed for good. What nobody holds is kept for who may ask again, until
 * there is too much. Made, and held anew, on the manager thread only. */
struct fr_known_code {
    struct fr_key        key;
    struct fr_nest_code  code;
    struct fr_object    *object;
    atomic_uint          n_holders;
    atomic_uint_fast64_t let_go;   /* when the last of them went, in the order of such events */
};

struct fr_manager {
    pthread_mutex_t          lock;      /* lists change under it only */
    pthread_mutex_t          fork_lock; /* what must not be torn by a fork */
    pthread_cond_t           wake, done;
    pthread_t                thread;
    _Atomic(struct fr_job *) mailbox; /* the newest first */
    atomic_bool              running;
    atomic_bool              asleep;  /* the manager does not look into the mailbox until it is woken */
    _Atomic(uint64_t)        n_pending;
    bool                     stop, configured;
    int64_t                  asked_us; /* when something was last taken from the inbox */
    struct fr_jobs           inbox, todo;
    struct fr_job           *current; /* taken from a list, not yet on another */
    struct fr_helper         helper[FR_MAX_HELPERS];
    struct fr_jobs           work[FR_MAX_HELPERS]; /* what each helper compiles, into one object */
    struct fr_known_code   **known;
    size_t                   n_known, known_cap;
    struct fr_compile_stats  stats;
    char                     unavailable[600];
    bool                     is_unavailable;
    char                     pause_reason[600];
    _Atomic(int64_t)         resume_us; /* before that, nothing is compiled */
    int                      n_pauses;  /* since the last object */
    char                    *feature[FR_MAX_FEATURES + 1];
    struct fr_helper_setup   setup;
    struct fr_key_origin     origin;   /* of what is compiled here */
    struct fr_key_origin     import[FR_MEMO_ORIGINS]; /* of entries that were compiled elsewhere and run here */
    int                      n_imports;
    atomic_bool              imports_read;
    unsigned                 n_compilers; /* that were told of so far: keys hold for the last */
    bool                     helper_hashed, compiler_known, memo_read, swept;
    int                      n_deaths_at_start;
};
extern struct fr_manager fr_manager;

/* ---- compile_job.c: lists of jobs, and what comes of one ------------------------------------- */

void fr_jobs_push(struct fr_jobs *, struct fr_job *);
/* NULL if there is none. */
struct fr_job *fr_jobs_pop(struct fr_jobs *);
/* Takes the first of a list as the current job; false if there is none. */
bool fr_jobs_take(struct fr_jobs *);
/* Puts the current job at the end of a list. */
void fr_jobs_put(struct fr_jobs *);
void fr_job_free(struct fr_job *);

/* Makes the key of a job, if it has none for the compiler of now. */
void fr_job_key(struct fr_job *);
/* What is in this process's memory for a key, or NULL. */
struct fr_known_code *fr_job_known(const struct fr_key *);
/* Answers the current job and forgets it. */
void fr_job_answer(const struct fr_nest_code *);
/* Answers the current job with what memory has for its key. */
void fr_job_answer_known(struct fr_known_code *);
/* Loads an object for the current job, counts it as `what` and answers with it. FR_EBUG: it is no good, and there is no
 * answer yet. Where there is no room for it, the answer is that there is no code, for now. */
fr_status fr_job_answer_with(const void *bytes, size_t n, uint64_t *what, struct fr_err *);
/* The current job has no code, and if `for_good`, never will have. */
void fr_job_give_up(bool for_good);
/* Answers the current job from memory or disk, or without code, or puts it where it waits for a helper. */
void fr_job_take_in(void);

void fr_compile_count(uint64_t *what, uint64_t n);
/* FRIT_LOG=compiles: a line. */
void fr_compile_say(const struct fr_key *, const char *what, int64_t us);
/* For a profile: so many kernels have come by this way, for which so long was taken until now. */
void fr_compile_seen(const char *what, int64_t us, int n_kernels);
/* From now on all is interpreted; warns once. */
void fr_compile_set_unavailable(const char *why);
/* The same for a while, the longer the more often in a row. */
void fr_compile_pause(const char *why);
/* Either of them. */
bool fr_compile_is_stopped(void);
/* The hello of a helper: the digest of its compiler, then the path. */
void fr_compile_learn_compiler(const char *hello, size_t n);

/* ---- compile_helpers.c ----------------------------------------------------------------------- */

/* Hands jobs of `todo` to idle helpers, and starts more of those while there is more to do. */
void fr_helpers_distribute(void);
/* Reads what helpers have to say, stops those that are too late or have been idle for long; waits for them if it
 * `may_wait` and somebody works. */
void fr_helpers_hear(bool may_wait);
/* Whether some helper owes an answer. */
bool fr_helpers_work(void);
/* Ends all of them. Their jobs go back to the inbox. */
void fr_helpers_stop(void);
/* In a forked child: they are the parent's; the jobs come back. Lock free. */
void fr_helpers_abandon(void);

#endif
