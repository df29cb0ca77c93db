/* base/background.h -- threads of our own, and work that nobody waits for. */
#ifndef FR_BASE_BACKGROUND_H
#define FR_BASE_BACKGROUND_H

#include <pthread.h>
#include <stddef.h>

/* A thread that no signal of the process is ever delivered to: its handlers run on its own threads. An error number,
 * EAGAIN also where an allocation is to fail (alloc.h); 0: it runs. */
int  fr_thread_start(pthread_t *, void *(*run)(void *), void *arg, size_t stack_bytes);

/* The calling thread gives way from now on: it has at least this niceness, preempts nobody when it wakes up, and
 * whoever does goes first. Where the system cannot do that, or refuses, nothing changes. */
void fr_background(int niceness);

#endif
