/* tests/cuda/fake.h -- what libraries over the driver of driver.c use of it. */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct stream;

/* Takes the driver's lock; not 0: what the driver says, as that there is no current context or that the device is lost. It is to
 * be given back all the same. */
int   fake_begin(void);
void  fake_end(void);
/* With the lock: where n bytes of device memory are; NULL: they are not all of one allocation. */
void *fake_memory(uint64_t address, size_t n);
/* run(arg), of so many bytes, goes into the stream, and runs when somebody waits for that, with the lock; arg is then freed. It says what was wrong,
 * or NULL. False: no memory. */
bool  fake_later(struct stream *, const char *(*run)(void *arg), void *arg, size_t n_bytes);

#endif
