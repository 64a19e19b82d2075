/* Memory that runs out at the n-th allocation: those of chosen extension modules, by the table through which they call
   the C library, and those of Python, by its hooks. Linux only; `failing_allocator.py` builds and uses it. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From the n-th on, so many fail; nothing is counted while that is negative. */
static long first, failing = -1, seen, denied;

static int fails(void) {
    long many = __atomic_load_n(&failing, __ATOMIC_ACQUIRE), number;
    if (many < 0) return 0;
    number = __atomic_fetch_add(&seen, 1, __ATOMIC_ACQ_REL);
    if (number < first || number >= first + many) return 0;
    __atomic_fetch_add(&denied, 1, __ATOMIC_ACQ_REL);
    return 1;
}

void arm(long at, long many) {
    first = at, seen = denied = 0;
    __atomic_store_n(&failing, many, __ATOMIC_RELEASE);
}

/* Nothing fails any more; how many allocations there were. */
long disarm(void) {
    __atomic_store_n(&failing, -1, __ATOMIC_RELEASE);
    return seen;
}

long count_denied(void) { return denied; }

static void *failing_malloc(size_t size) { return fails() ? NULL : malloc(size); }
static void *failing_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
static void *failing_realloc(void *old, size_t size) { return fails() ? NULL : realloc(old, size); }
static int failing_memalign(void **found, size_t alignment, size_t size) {
    return fails() ? ENOMEM : posix_memalign(found, alignment, size);
}
static void *failing_aligned(size_t alignment, size_t size) { return fails() ? NULL : aligned_alloc(alignment, size); }
static char *failing_strdup(const char *text) { return fails() ? NULL : strdup(text); }
static void *failing_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (!fails()) return mmap(at, size, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static const struct { const char *name; void *instead; } INSTEAD[] = {
    {"malloc", (void *) failing_malloc}, {"calloc", (void *) failing_calloc}, {"realloc", (void *) failing_realloc},
    {"posix_memalign", (void *) failing_memalign}, {"aligned_alloc", (void *) failing_aligned},
    {"strdup", (void *) failing_strdup}, {"mmap", (void *) failing_mmap}, {"mmap64", (void *) failing_mmap},
};

static int replaced;

static void replace_in(uintptr_t base, const ElfW(Rela) *table, size_t size, const ElfW(Sym) *symbols, const char *names) {
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < size / sizeof(*table); i++) {
        const char *name = names + symbols[ELF64_R_SYM(table[i].r_info)].st_name;
        for (size_t n = 0; n < sizeof(INSTEAD) / sizeof(INSTEAD[0]); n++) {
            if (strcmp(name, INSTEAD[n].name)) continue;
            void **slot = (void **) (base + table[i].r_offset);
            void *start = (void *) ((uintptr_t) slot & ~(page - 1));
            if (mprotect(start, (size_t) page, PROT_READ | PROT_WRITE) == 0) *slot = INSTEAD[n].instead, replaced++;
        }
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *part) {
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Sym) *symbols = NULL;
    const ElfW(Rela) *plain = NULL, *calls = NULL;
    const char *names = NULL;
    size_t plain_size = 0, calls_size = 0;
    (void) size;
    if (info->dlpi_name == NULL || strstr(info->dlpi_name, part) == NULL) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) dynamic = (const void *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *) dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB) names = (const void *) dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELA) plain = (const void *) dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELASZ) plain_size = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_JMPREL) calls = (const void *) dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_PLTRELSZ) calls_size = dynamic->d_un.d_val;
    }
    if (symbols == NULL || names == NULL) return 0;
    if (plain != NULL) replace_in(info->dlpi_addr, plain, plain_size, symbols, names);
    if (calls != NULL) replace_in(info->dlpi_addr, calls, calls_size, symbols, names);
    return 0;
}

/* Have the allocations of modules fail whose path contains a text; how many calls were found. */
int watch_modules(char *part) {
    replaced = 0;
    dl_iterate_phdr(visit, part);
    return replaced;
}

/* What Python calls PyMemAllocatorEx, and its three domains. */
typedef struct {
    void *ctx;
    void *(*malloc)(void *ctx, size_t size);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *old, size_t size);
    void (*free)(void *ctx, void *found);
} python_allocator;

static python_allocator before[3];

static void *python_malloc(void *ctx, size_t size) {
    python_allocator *one = ctx;
    return fails() ? NULL : one->malloc(one->ctx, size);
}
static void *python_calloc(void *ctx, size_t count, size_t size) {
    python_allocator *one = ctx;
    return fails() ? NULL : one->calloc(one->ctx, count, size);
}
static void *python_realloc(void *ctx, void *old, size_t size) {
    python_allocator *one = ctx;
    return fails() ? NULL : one->realloc(one->ctx, old, size);
}
static void python_free(void *ctx, void *found) {
    python_allocator *one = ctx;
    one->free(one->ctx, found);
}

void watch_python(void (*get)(int, python_allocator *), void (*set)(int, python_allocator *)) {
    for (int domain = 0; domain < 3; domain++) {
        python_allocator ours = {&before[domain], python_malloc, python_calloc, python_realloc, python_free};
        get(domain, &before[domain]);
        set(domain, &ours);
    }
}
