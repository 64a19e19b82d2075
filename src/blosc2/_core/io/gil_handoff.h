/* Handing the GIL from reader to reader, without being put to sleep.
 *
 * A short read leaves the GIL for some microseconds. When it comes back while another reader holds it, the interpreter
 * puts it to sleep, and being woken takes longer than the whole read: two threads that decode small blocks are then no
 * faster than one. The other reader mostly leaves the GIL again at once, so a reader waits a little in a loop before it
 * asks for the GIL. This is a hint only: nothing depends on it being right, and nobody waits for longer than PATIENCE. */
#ifndef B2_GIL_HANDOFF_H
#define B2_GIL_HANDOFF_H
#include "atomics.h"
#include "native_thread.h"

#ifdef Py_GIL_DISABLED
/* Nobody waits for what is not there. */
B2_INLINE void gil_offered(atomic_state *taken) { (void)taken; }
B2_INLINE void wait_for_gil(atomic_state *taken) { (void)taken; }
#else
enum { B2_HANDOFF_PATIENCE = 400 };  /* some 10 to 20 us */

B2_INLINE void gil_offered(atomic_state *taken) { state_set(taken, 0); }

B2_INLINE void wait_for_gil(atomic_state *taken) {
    int i;
    for (i = 0; i < B2_HANDOFF_PATIENCE && !state_change(taken, 0, 1); i++) relax();
}
#endif
#endif
