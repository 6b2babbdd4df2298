#ifndef SANGAM_TESTS_TESTING_WORKER_JOB_H_
#define SANGAM_TESTS_TESTING_WORKER_JOB_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace sangam::testing {

// A small job over 6 x 6 images of 5 classes: blocks with and without parameters, of several pages.
struct WorkerJob {
  // Twice as many blocks, with a skip connection and one that recomputes.
  bool deep = false;
  // A network over the images as such: convolutions, pooling, norms with running statistics, a
  // residual with a shortcut and a concat. Ten blocks, one of which recomputes.
  bool cnn = false;
  // Sequences of 5 tokens: an embedding, three transformer blocks, of which one recomputes, and a
  // head that shares the embedding's table.
  bool gpt = false;
  uint32_t batch = 20;
  uint32_t micro_batches = 8;
  uint32_t shares = 8;
  uint32_t workers = 1;
  uint32_t ranks = 1;   // workers of one pipeline
  uint32_t chunks = 1;  // stages on each of them
  v1::Schedule schedule = v1::ONE_F_ONE_B;
  uint32_t credits = 2;
  uint32_t lanes = 0;           // of each worker of a pipeline
  uint32_t train_samples = 70;  // the last of four batches has 10
  uint32_t test_samples = 23;
  uint32_t epochs = 2;
  uint32_t every_epochs = 1;
  float dropout = 0;
  v1::Precision precision = v1::FP32;
  uint64_t job = 3;
  uint64_t generation = 1;

  uint32_t steps_per_epoch() const { return (train_samples + batch - 1) / batch; }
};

// Writes the job's data to `folder`: IDX files train-images, train-labels, test-images and
// test-labels, or train-text and test-text.
void WriteData(const WorkerJob& job, const std::string& folder);

// The assignment as the coordinator would make it; workers are called "w0", "w1", ..., all of
// incarnation 1, the ones of a pipeline in a row, and there are two servers.
v1::Assignment MakeAssignment(const WorkerJob& job, v1::Assignment::Phase phase);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_WORKER_JOB_H_
