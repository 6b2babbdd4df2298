#ifndef SANGAM_TESTS_BENCH_EXCHANGE_STEP_H_
#define SANGAM_TESTS_BENCH_EXCHANGE_STEP_H_

#include <cstdint>
#include <string>

namespace sangam {

// A job of one worker: a perceptron of equal layers, made-up samples, AdamW.
struct ExchangeJob {
  std::string backend = "cuda";
  bool graphs = true;
  uint64_t width = 4096;
  uint64_t layers = 4;
  uint64_t batch = 4096;
  uint32_t micro_batches = 2;
  uint64_t steps = 60;
  uint64_t page_elements = 1 << 18;
};

// Whom the worker exchanges gradients for weights with.
enum class Exchange {
  // A real server, in this process, over gRPC and loopback.
  kServer,
  // Nobody: the weights of the next step are the ones that are here, as soon as it may begin.
  kNothing,
};

// Median seconds of a step of the whole worker, without the first ones.
double SecondsOfStep(const ExchangeJob& job, Exchange exchange);

// Of the job's model.
uint64_t NumParameters(const ExchangeJob& job);

}  // namespace sangam

#endif  // SANGAM_TESTS_BENCH_EXCHANGE_STEP_H_
