/* Lets a test move the wall clock of one process: what CLOCK_JUMP_FILE holds, in seconds, is added to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nowhere;
static volatile int64_t *jump = &nowhere;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_JUMP_FILE");
  int file = path ? open(path, O_RDONLY) : -1;
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  if (file >= 0) {
    void *at = mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) jump = at;
    close(file);
  }
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real_clock_gettime(id, at);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *jump;
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
