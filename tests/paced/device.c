// Preloaded into llama-server: a device that takes its time. A step computes as always, and is over when the device
// that the environment describes would have been: UPRIGHT_STEP_US and UPRIGHT_TOKEN_US for each token in it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct tensor { // the beginning of ggml's
    int type;
    void *buffer;
    int64_t ne[4];
};

static int64_t setting(const char *name) {
    const char *text = getenv(name);
    return text ? atoll(text) * 1000 : 0;
}

int ggml_backend_sched_graph_compute_async(void *scheduler, void *graph) {
    int (*compute)(void *, void *) = dlsym(RTLD_NEXT, "ggml_backend_sched_graph_compute_async");
    struct tensor *(*node)(void *, int) = dlsym(RTLD_DEFAULT, "ggml_graph_node");
    struct timespec over;
    clock_gettime(CLOCK_MONOTONIC, &over);
    int result = compute(scheduler, graph);
    over.tv_nsec += setting("UPRIGHT_STEP_US") + setting("UPRIGHT_TOKEN_US") * node(graph, 0)->ne[1];
    over.tv_sec += over.tv_nsec / 1000000000;
    over.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &over, NULL) == EINTR) {
    }
    return result;
}
