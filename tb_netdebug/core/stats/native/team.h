/* Threads for big tensors. */
#ifndef NETDEBUG_TEAM_H
#define NETDEBUG_TEAM_H

/* Runs `work(context)` on up to `threads` threads at once, the caller's among them, and waits for all. */
void team_run(void (*work)(void *), void *context, int threads);

/* Borrows the threads of an OpenMP runtime that the process has loaded already; false when `path` is not it. */
int team_borrow(const char *path);

/* "openmp" (borrowed), "own" or "none" (in a forked child). */
const char *team_name(void);

#endif
