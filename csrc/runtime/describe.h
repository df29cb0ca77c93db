/* runtime/describe.h -- a plan as text for people, and as JSON for programs.  Called by explain.c.
 *
 * site: [n_nodes] the line of each node of the plan's graph, for a plan may have been made for other lines. */
#ifndef FR_RUNTIME_DESCRIBE_H
#define FR_RUNTIME_DESCRIBE_H

#include "jit/emit_text.h"
#include "runtime/plan.h"

bool      fr_describe_knows(const char *kind);
/* kind as fr_explain has it; "plan" has a paragraph for each kernel. Sites are written "@123". */
fr_status fr_describe_text(struct fr_text *, const struct fr_plan *, const uint32_t *site, const char *kind, struct fr_err *);
/* An object: bytes, and lists `nodes`, `groups`, `steps` and `memory`, whose items name each other by number. */
fr_status fr_describe_json(struct fr_text *, const struct fr_plan *, const uint32_t *site, struct fr_err *);

#endif
