#ifndef SANGAM_TESTS_TESTING_WIRE_JOB_H_
#define SANGAM_TESTS_TESTING_WIRE_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace sangam {

// A job that consists of segments and nothing else, for tests of the way between workers and
// servers: plain SGD, initial weights uniform in [-1, 1).
struct WireJob {
  uint64_t job = 7;
  uint64_t generation = 1;
  // Elements of each segment.
  std::vector<uint64_t> segments = {100};
  // Uses of each segment: of its own block, and of blocks that only use it; none listed: one.
  std::vector<uint32_t> uses = {};
  uint64_t page_elements = 64;
  uint32_t shares = 1;
  uint32_t workers = 1;
  // "host:port" of each server; server i is called "server-<i>", and pages are dealt to the servers
  // in turn.
  std::vector<std::string> servers = {""};
  float learning_rate = 0.5f;
  uint64_t schema_hash = 0x5a5a;
};

// What the coordinator would assign in phase PREPARE. Worker i is called "worker-<i>", has
// incarnation 100 + i and an even part of the shares.
v1::Assignment MakeAssignment(const WireJob& job);
// The same in phase RUN.
v1::Assignment Running(v1::Assignment assignment);

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_WIRE_JOB_H_
