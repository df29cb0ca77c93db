/* What others have set for backends to call; see backend.h. */
#include "backends/backend.h"

bool (*fr_backend_interrupted)(void);
void (*fr_backend_wants)(void);
bool (*fr_backend_is_tended)(void);
