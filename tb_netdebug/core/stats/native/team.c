/* Threads for large tensors. A training thread has an OpenMP team that spins for a while after each operation of the
   framework. Threads of our own would first have to displace it from the cores (measured: no gain at all on two cores).
   So the framework's team is borrowed where there is one: the call goes through the OpenMP runtime loaded anyway. */
#define _GNU_SOURCE
#include "team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

typedef void (*OpenMpParallel)(void (*)(void *), void *, unsigned threads, unsigned flags);

static OpenMpParallel borrowed;
static pid_t owner; /* threads do not survive a fork: in a child everything runs on the caller's thread */

int team_borrow(const char *path) {
    void *runtime = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!runtime)
        return 0;
    void *symbol = dlsym(runtime, "GOMP_parallel");
    if (!symbol) {
        dlclose(runtime);
        return 0;
    }
    *(void **)&borrowed = symbol;
    owner = getpid();
    return 1;
}

/* ---- a small pool, for processes without OpenMP -------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    void (*work)(void *);
    void *context;
    unsigned long round;
    int wanted, running, size;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .start = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void *helper(void *unused) {
    (void)unused;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == seen || pool.wanted == 0) {
            seen = pool.round;
            pthread_cond_wait(&pool.start, &pool.lock);
        }
        seen = pool.round;
        pool.wanted--;
        pool.running++;
        pthread_mutex_unlock(&pool.lock);
        pool.work(pool.context);
        pthread_mutex_lock(&pool.lock);
        if (--pool.running == 0)
            pthread_cond_signal(&pool.done);
    }
    return NULL;
}

static void grow(int size) {
    while (pool.size < size) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, helper, NULL) != 0)
            return; /* fewer threads: slower, but correct */
        pthread_detach(thread);
        pool.size++;
    }
}

static void run_in_pool(void (*work)(void *), void *context, int threads) {
    pthread_mutex_lock(&pool.lock);
    grow(threads - 1);
    pool.work = work;
    pool.context = context;
    pool.wanted = threads - 1 < pool.size ? threads - 1 : pool.size;
    pool.round++;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    work(context);
    pthread_mutex_lock(&pool.lock);
    pool.wanted = 0; /* a thread that has not woken up by now finds no work left */
    while (pool.running)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void team_run(void (*work)(void *), void *context, int threads) {
    if (!owner)
        owner = getpid();
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads <= 1 || getpid() != owner)
        work(context);
    else if (borrowed)
        borrowed(work, context, (unsigned)threads, 0);
    else
        run_in_pool(work, context, threads);
}

const char *team_name(void) {
    if (owner && getpid() != owner)
        return "none";
    return borrowed ? "openmp" : "own";
}
