/* The C library reads BLOSC_* variables when a context is made and again while it compresses, and lets them override
   the parameters that it was given. Where the linker can do it, its calls of getenv come here and find none of them. */
#ifndef B2_LIBRARY_ENVIRONMENT_H
#define B2_LIBRARY_ENVIRONMENT_H
#ifdef B2_WRAPS_LIBRARY
#include <string.h>

char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);

char *__wrap_getenv(const char *name) {
  return strncmp(name, "BLOSC_", 6) == 0 ? 0 : __real_getenv(name);
}

static int library_reads_environment(void) { return 0; }
#else
static int library_reads_environment(void) { return 1; }
#endif
#endif
