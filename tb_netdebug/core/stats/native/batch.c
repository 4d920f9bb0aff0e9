/* A batch of tensors, counted by several threads. Work is cut into strips of fixed size, so that sums do not depend on
   the number of threads. Each thread owns a share of neighbouring strips. When done, it steals from the ends of other
   shares, so a thread that is held up (its core may be busy with a data loader) does less. Few tensors are counted by
   more than one thread. The framework divides tensors among its threads in the same way, so what they wrote last is
   still in the cache. A tensor of one strip is finished by the thread that drew it. Of a larger one each thread counts
   what it drew, and the last one to leave packs the total. */
#define _GNU_SOURCE
#include "batch.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "float_mode.h"
#include "packed.h"
#include "team.h"

enum {
    STRIP = 16384,
    MOST_STRIPS = 64, /* of one tensor */
    MOST_WORKERS = 64,
    ONE_THREAD = 98304, /* with fewer values than this, waiting for a delayed thread costs more than it saves */
};

/* The counts so far of the threads that share a large tensor: of values, and of change. */
typedef struct {
    Folded parts[2];
} Total;

typedef struct {
    size_t first_strip, strips, strip_size, finished;
    double (*sums)[2][2]; /* for each strip: of values and of change, sum and sum of squares */
    Total *total;
} Plan;

typedef struct {
    Tally tally[2];
    uint8_t *out;
    size_t out_used, out_size;
    Total *spare;
} Worker;

/* The range of strips not yet drawn, in one atomic word: the end in the upper half, the first in the lower. */
typedef struct {
    _Alignas(64) _Atomic uint64_t range;
} Share;

static struct {
    pthread_mutex_t lock, totals;
    const Passes *passes;
    Item *items;
    Plan *plans;
    size_t count, plans_size, sums_size;
    double (*sums)[2][2];
    size_t all_strips;
    Share shares[MOST_WORKERS];
    int share_count;
    atomic_int next_worker, failed;
    Worker *workers[MOST_WORKERS];
} batch = {.lock = PTHREAD_MUTEX_INITIALIZER, .totals = PTHREAD_MUTEX_INITIALIZER};

/* A forked child lacks the thread that may have held a lock. Its buffers are abandoned, not freed. */
static void free_locks(void) {
    memset(&batch, 0, sizeof batch);
    pthread_mutex_init(&batch.lock, NULL);
    pthread_mutex_init(&batch.totals, NULL);
}

void batch_prepare(void) { pthread_atfork(NULL, NULL, free_locks); }
int batch_try_lock(void) { return pthread_mutex_trylock(&batch.lock) == 0; }
void batch_lock(void) { pthread_mutex_lock(&batch.lock); }
void batch_unlock(void) { pthread_mutex_unlock(&batch.lock); }

/* ---- plan ---------------------------------------------------------------------------------------------- */

static size_t strip_size(size_t count) {
    size_t size = (count + MOST_STRIPS - 1) / MOST_STRIPS;
    size = (size + BLOCK - 1) / BLOCK * BLOCK;
    return size > STRIP ? size : STRIP;
}

static int make_room(size_t plans, size_t strips) {
    if (plans > batch.plans_size) {
        void *bigger = realloc(batch.plans, plans * sizeof *batch.plans);
        if (!bigger)
            return 0;
        batch.plans = bigger;
        batch.plans_size = plans;
    }
    if (strips > batch.sums_size) {
        void *bigger = realloc(batch.sums, strips * sizeof *batch.sums);
        if (!bigger)
            return 0;
        batch.sums = bigger;
        batch.sums_size = strips;
    }
    return 1;
}

static int make_plans(Item *items, size_t count) {
    size_t strips = 0;
    if (!make_room(count, 0))
        return 0;
    for (size_t i = 0; i < count; i++) {
        size_t values = items[i].view.count, size = strip_size(values);
        size_t needed = values ? (values + size - 1) / size : 1;
        batch.plans[i] = (Plan){.first_strip = strips, .strips = needed, .strip_size = size};
        strips += needed;
    }
    if (strips > UINT32_MAX || !make_room(count, strips))
        return 0;
    for (size_t i = 0; i < count; i++)
        batch.plans[i].sums = batch.sums + batch.plans[i].first_strip;
    batch.items = items;
    batch.count = count;
    batch.all_strips = strips;
    return 1;
}

/* ---- one thread ---------------------------------------------------------------------------------------- */

static Worker *worker_at(int number) {
    if (!batch.workers[number]) {
        Worker *worker = aligned_alloc(64, (sizeof(Worker) + 63) / 64 * 64);
        if (!worker)
            return NULL;
        memset(worker, 0, sizeof *worker);
        batch.workers[number] = worker;
    }
    return batch.workers[number];
}

static int reserve_output(Worker *worker) {
    if (worker->out_size - worker->out_used >= 2 * MOST_PACKED_BYTES)
        return 1;
    /* Grown only between tensors; results are offsets until the end, so the buffer may move. */
    size_t size = 2 * worker->out_size + 4 * MOST_PACKED_BYTES;
    uint8_t *bigger = realloc(worker->out, size);
    if (!bigger)
        return 0;
    worker->out = bigger;
    worker->out_size = size;
    return 1;
}

static void put_result(Worker *worker, Item *item, const Plan *plan, int which, Folded *folded, int number) {
    double sum = 0, squares = 0;
    for (size_t s = 0; s < plan->strips; s++) {
        sum += plan->sums[s][which][0];
        squares += plan->sums[s][which][1];
    }
    /* While threads run, `packed` holds worker number and offset, because buffers may still move. */
    item->packed[which] = (const uint8_t *)(((uintptr_t)worker->out_used << 6) | (uintptr_t)number);
    item->packed_bytes[which] = pack(folded, sum, squares, worker->out + worker->out_used);
    worker->out_used += item->packed_bytes[which];
}

static void finish_shared(Worker *worker, Item *item, Plan *plan, int parts, int number) {
    for (int which = 0; which < parts; which++)
        put_result(worker, item, plan, which, &plan->total->parts[which], number);
    free(worker->spare);
    worker->spare = plan->total;
    plan->total = NULL;
}

/* The first thread to leave a shared tensor lends its buffer and the last one keeps it: one per thread is enough. */
static int leave_shared(Worker *worker, Item *item, Plan *plan, size_t drawn, int parts, int number) {
    int ok = 1;
    pthread_mutex_lock(&batch.totals);
    if (!plan->total) {
        plan->total = worker->spare ? worker->spare : calloc(1, sizeof *plan->total);
        worker->spare = NULL;
        if ((ok = plan->total != NULL)) {
            folded_start(&plan->total->parts[0]);
            folded_start(&plan->total->parts[1]);
        }
    }
    for (int which = 0; ok && which < parts; which++)
        folded_move(&plan->total->parts[which], &worker->tally[which].folded);
    plan->finished += drawn;
    if (ok && plan->finished == plan->strips)
        finish_shared(worker, item, plan, parts, number);
    pthread_mutex_unlock(&batch.totals);
    return ok;
}

static int leave(Worker *worker, size_t index, size_t drawn, int number) {
    Item *item = batch.items + index;
    Plan *plan = batch.plans + index;
    int parts = item->view.previous ? 2 : 1;
    if (!reserve_output(worker))
        return 0;
    for (int which = 0; which < parts; which++)
        tally_fold(&worker->tally[which]);
    if (drawn < plan->strips)
        return leave_shared(worker, item, plan, drawn, parts, number);
    for (int which = 0; which < parts; which++)
        put_result(worker, item, plan, which, &worker->tally[which].folded, number);
    return 1;
}

static void do_strip(Worker *worker, const Item *item, const Plan *plan, size_t strip) {
    Tally *update = item->view.previous ? &worker->tally[1] : NULL;
    size_t from = strip * plan->strip_size, to = from + plan->strip_size;
    to = to < item->view.count ? to : item->view.count;
    tally_start_strip(&worker->tally[0]);
    if (update)
        tally_start_strip(update);
    batch.passes->strip(&worker->tally[0], update, &item->view, from, to);
    tally_end_strip(&worker->tally[0], plan->sums[strip][0]);
    if (update)
        tally_end_strip(update, plan->sums[strip][1]);
}

static void enter(Worker *worker, const Item *item) {
    tally_start(&worker->tally[0], item->view.count, batch.passes->fold_pairs);
    if (item->view.previous)
        tally_start(&worker->tally[1], item->view.count, batch.passes->fold_pairs);
}

/* Draws a strip of a share: the first one for its owner, the last one for others. */
static int draw_of(Share *share, int is_owner, size_t *strip) {
    uint64_t range = atomic_load(&share->range);
    for (;;) {
        uint64_t first = range & UINT32_MAX, end = range >> 32;
        if (first == end)
            return 0;
        uint64_t left = is_owner ? (end << 32 | (first + 1)) : ((end - 1) << 32 | first);
        if (atomic_compare_exchange_weak(&share->range, &range, left)) {
            *strip = is_owner ? first : end - 1;
            return 1;
        }
    }
}

static int draw(int worker, size_t *strip) {
    int own = worker % batch.share_count;
    for (int i = 0; i < batch.share_count; i++)
        if (draw_of(&batch.shares[(own + i) % batch.share_count], i == 0, strip))
            return 1;
    return 0;
}

static int is_of(const Plan *plan, size_t strip) {
    return strip >= plan->first_strip && strip < plan->first_strip + plan->strips;
}

/* The index of the plan of a strip, searched from a nearby one. */
static size_t index_of(size_t strip, size_t index) {
    while (strip < batch.plans[index].first_strip)
        index--;
    while (strip >= batch.plans[index].first_strip + batch.plans[index].strips)
        index++;
    return index;
}

static void summarize_worker(void *unused) {
    (void)unused;
    int number = atomic_fetch_add(&batch.next_worker, 1);
    Worker *worker = number < MOST_WORKERS ? worker_at(number) : NULL;
    if (!worker) {
        if (number == 0)
            atomic_store(&batch.failed, 1); /* only the first: others can do the work without this one */
        return;
    }
    unsigned mode = keep_subnormals();
    size_t index = 0, drawn = 0, strip;
    worker->out_used = 0;
    while (draw(number, &strip)) {
        if (drawn && !is_of(batch.plans + index, strip)) {
            if (!leave(worker, index, drawn, number))
                atomic_store(&batch.failed, 1);
            drawn = 0;
        }
        index = index_of(strip, index);
        if (drawn++ == 0)
            enter(worker, batch.items + index);
        do_strip(worker, batch.items + index, batch.plans + index, strip - batch.plans[index].first_strip);
    }
    if (drawn && !leave(worker, index, drawn, number))
        atomic_store(&batch.failed, 1);
    restore_float_mode(mode);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static void share_out(int threads) {
    batch.share_count = threads;
    for (int i = 0; i < threads; i++) {
        uint64_t first = batch.all_strips * (size_t)i / (size_t)threads;
        uint64_t end = batch.all_strips * ((size_t)i + 1) / (size_t)threads;
        atomic_store(&batch.shares[i].range, end << 32 | first);
    }
}

static int start(const Passes *passes, Item *items, size_t count, int threads) {
    if (!make_plans(items, count))
        return 0;
    batch.passes = passes;
    share_out(threads);
    atomic_store(&batch.next_worker, 0);
    atomic_store(&batch.failed, 0);
    return 1;
}

static int useful_threads(const Item *items, size_t count, int threads) {
    size_t values = 0;
    for (size_t i = 0; i < count; i++)
        values += items[i].view.count * (items[i].view.previous ? 2 : 1);
    if (values < ONE_THREAD || threads < 1)
        return 1;
    return threads < MOST_WORKERS ? threads : MOST_WORKERS;
}

static void point_to_results(Item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int which = 0; which < 2; which++) {
            uintptr_t place = (uintptr_t)items[i].packed[which];
            if (items[i].packed_bytes[which])
                items[i].packed[which] = batch.workers[place & 63]->out + (place >> 6);
        }
}

int batch_summarize(const Passes *passes, Item *items, size_t count, int threads) {
    threads = useful_threads(items, count, threads);
    if (!start(passes, items, count, threads))
        return 0;
    team_run(summarize_worker, NULL, threads);
    if (atomic_load(&batch.failed))
        return 0;
    point_to_results(items, count);
    return 1;
}

static void squares_worker(void *unused) {
    (void)unused;
    size_t index = 0, strip;
    int number = atomic_fetch_add(&batch.next_worker, 1);
    unsigned mode = keep_subnormals();
    while (draw(number, &strip)) {
        index = index_of(strip, index);
        const Plan *plan = batch.plans + index;
        const View *view = &batch.items[index].view;
        size_t place = strip - plan->first_strip, from = place * plan->strip_size, to = from + plan->strip_size;
        double others = (double)batch.passes->squares(view, from, to < view->count ? to : view->count,
                                                      &plan->sums[place][0][0]);
        plan->sums[place][0][1] = others; /* a strip has far fewer than 2^53 values */
    }
    restore_float_mode(mode);
}

int batch_squares(const Passes *passes, Item *items, size_t count, int threads) {
    threads = useful_threads(items, count, threads);
    if (!start(passes, items, count, threads))
        return 0;
    team_run(squares_worker, NULL, threads);
    for (size_t i = 0; i < count; i++) {
        items[i].squares = 0;
        items[i].others = 0;
        for (size_t s = 0; s < batch.plans[i].strips; s++) {
            items[i].squares += batch.plans[i].sums[s][0][0];
            items[i].others += (uint64_t)batch.plans[i].sums[s][0][1];
        }
    }
    return 1;
}
