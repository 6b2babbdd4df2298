#ifndef SANGAM_COMMON_BASE_EXIT_CODE_H_
#define SANGAM_COMMON_BASE_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace sangam {

// How the programs end. Part of their interface: docs/operations.md has the same table.
enum class ExitCode {
  kSuccess = 0,
  // None of the others.
  kFailure = 1,
  // The command line, the job or the cluster for it is wrong (INVALID_ARGUMENT,
  // FAILED_PRECONDITION): the same again will not do.
  kUsage = 2,
  // 3 to 9: the client only.
  kJobFailed = 3,
  kJobCancelled = 4,
  kNotFound = 5,
  // Who calls is unknown or may not do that (UNAUTHENTICATED, PERMISSION_DENIED).
  kRefused = 6,
  // The coordinator cannot be reached.
  kUnavailable = 7,
  kExhausted = 8,
  // It took longer than it may (--timeout).
  kDeadline = 9,
  // Damaged data or checkpoints (DATA_LOSS).
  kDataLoss = 65,
  // A daemon cannot start with what it is told, on this machine: a file or folder that is missing
  // or locked, an address that is taken or needs TLS. Starting it again will not do.
  kBadConfiguration = 78,
  // 128 + the number of the signal, as shells count: a client that was interrupted, a daemon that
  // ended in order after it, or at once after a second one.
  kInterrupted = 130,
  kTerminated = 143,
};

// For the error that the client ends with.
ExitCode ExitCodeFor(const absl::Status& status);

// Marks an error of a daemon's start as one of its configuration, if its code can mean that:
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, PERMISSION_DENIED,
// OUT_OF_RANGE. What a peer answered is none, however it looks: the peer may change its mind.
absl::Status OfConfiguration(absl::Status status);

// For the error that a daemon ends with: kBadConfiguration, kDataLoss or kFailure.
ExitCode DaemonExitCodeFor(const absl::Status& status);

// The table for people, in one paragraph.
std::string ClientExitCodes();
std::string DaemonExitCodes();

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_EXIT_CODE_H_
