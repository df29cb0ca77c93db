/* Where the code that makes plans begins and ends: built twice, linked before and behind it (setup.py). */
#include "runtime/plan.h"

void
FR_MARK(void)
{
}
