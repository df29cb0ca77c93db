/* backends/cpu/mapping.h -- memory from the system, in huge pages.
 *
 * Called by memory.c and runs.c. All mappings are advised to use huge pages, of which those untouched
 * take no memory: the kernel has one ready in the time of 24 small ones (31 us on a Zen 5 under KVM, where
 * each fault takes 1.3), so that what a first call writes costs little more than what later ones do. */
#ifndef FR_BACKENDS_CPU_MAPPING_H
#define FR_BACKENDS_CPU_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#define FR_PAGE ((size_t)4 << 10)
#define FR_HUGE ((size_t)2 << 20)

/* n_bytes, a multiple of FR_PAGE, at a multiple of `align`, a power of two of at least FR_HUGE. Zeros. NULL when
 * memory is out. Thread-safe. */
void *fr_map(size_t n_bytes, size_t align);
void  fr_unmap(void *p, size_t n_bytes);
/* Gives the memory of whole pages back; they stay mapped, and are zeros when touched again. */
void  fr_map_dry(void *p, size_t n_bytes);
/* Has the pages there, if they are not yet, whatever another thread does with them. */
void  fr_map_populate(char *from, char *to);
/* How many mappings have been asked for. */
uint64_t fr_map_count(void);

#endif
