/* What a thread without Python has to see to itself: signals, and where it runs. */
#ifndef B2_NATIVE_THREAD_H
#define B2_NATIVE_THREAD_H
#ifdef _MSC_VER
#define B2_INLINE static __inline
#else
#define B2_INLINE static inline
#endif

#ifdef _WIN32
B2_INLINE void leave_signals_to_others(void) {}
#else
#include <pthread.h>
#include <signal.h>
/* Signals such as an interrupt must reach the thread that waits for them. Those that a thread brings upon itself
 * stay: when a file is cut while it is mapped, the process ends, as it should. */
static inline void leave_signals_to_others(void) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, 0);
}
#endif

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define relax() __builtin_ia32_pause()
#elif defined(__aarch64__) && defined(__GNUC__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void) 0)
#endif

/* A thread that is woken runs where it slept or where it was woken from. Kernels built without knowledge of shared
 * caches (small virtual machines have such) do not look for an idle CPU first, and nothing moves the thread before both
 * have been at work for many milliseconds: two threads take turns on one CPU while another idles. So who wakes a helper
 * keeps it off its own CPU until it has woken. Then it may run wherever its caller may: the caller may come to its CPU. */
#if defined(__linux__) && defined(_GNU_SOURCE)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
typedef cpu_set_t cpu_mask;
static inline long current_thread(void) { return syscall(SYS_gettid); }
/* Where helpers of this thread may run, and where they wake: elsewhere, unless it is the only place; 0 when not known. */
static inline int elsewhere(cpu_mask *allowed, cpu_mask *mask) {
    int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof *allowed, allowed) != 0) return 0;
    *mask = *allowed;
    if (CPU_COUNT(mask) > 1) CPU_CLR(cpu, mask);
    return 1;
}
/* Have a thread run there; 0 is the one that calls. */
static inline void send_to(long thread, const cpu_mask *mask) {
    if (thread >= 0) (void) sched_setaffinity((pid_t) thread, sizeof *mask, mask);
}
#else
typedef int cpu_mask;
B2_INLINE long current_thread(void) { return 0; }
B2_INLINE int elsewhere(cpu_mask *allowed, cpu_mask *mask) { (void) allowed; (void) mask; return 0; }
B2_INLINE void send_to(long thread, const cpu_mask *mask) { (void) thread; (void) mask; }
#endif

/* Handing the GIL from reader to reader, without being put to sleep.
 *
 * A short read leaves the GIL for some microseconds. When it comes back while another reader holds it, the interpreter
 * puts it to sleep, and being woken takes longer than the whole read: two threads that decode small blocks are then no
 * faster than one. The other reader mostly leaves the GIL again at once, so a reader waits a little in a loop before it
 * asks for the GIL. This is a hint only: nothing depends on it being right, and nobody waits for longer than PATIENCE. */
#include "steps.h"

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
