/* Threads for big tensors. */
#ifndef NETDEBUG_TEAM_H
#define NETDEBUG_TEAM_H

/* Runs `work(context)` on up to `threads` threads at once, including the caller's, and waits for all of them. */
void team_run(void (*work)(void *), void *context, int threads);

/* Borrows the threads of the loaded OpenMP runtime at `path`; false when the process has not loaded it. */
int team_borrow(const char *path);

/* "openmp" (borrowed), "own" or "none" (in a forked child). */
const char *team_name(void);

#endif
