#ifndef SANGAM_COMMON_BASE_CHECK_H_
#define SANGAM_COMMON_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

// Ends the process when `condition` is false. Only for bugs of ours: never for anything that came
// from a user, a file or the network.
#define SANGAM_CHECK(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#endif  // SANGAM_COMMON_BASE_CHECK_H_
