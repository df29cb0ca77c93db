/* base/background.h -- work that nobody waits for. */
#ifndef FR_BASE_BACKGROUND_H
#define FR_BASE_BACKGROUND_H

/* The calling thread gives way from now on: it has at least this niceness, preempts nobody when it wakes up, and
 * whoever does goes first. Where the system cannot do that, or refuses, nothing changes. */
void fr_background(int niceness);

#endif
