#ifndef SANGAM_TESTS_E2E_SPREAD_JOB_H_
#define SANGAM_TESTS_E2E_SPREAD_JOB_H_

#include <string>
#include <vector>

// Jobs of a few steps on small data, each with much of what a model may have, to be spread in many
// ways.
namespace sangam::testing {

enum class Model { kMlp, kGpt, kCnn, kWide };

std::string Name(Model model);

// How a job is spread; texts as in a job file.
struct Spread {
  int workers = 1;
  std::string strategy = "DATA_PARALLEL";
  std::string schedule;  // of pipelines
  int pipeline_workers = 0;
  bool served = false;
  int threads = 1;
  int servers = 1;
  std::vector<std::string> flags = {};  // further ones of `sangam run`

  std::string Label() const;
};

// Of the CNN.
constexpr char kClipping[] = "clipping { max_norm: 0.5 }";
constexpr char kSchedule[] = "schedule { cosine {} warmup_steps: 2 }";

std::string JobText(Model model, int micro_batches, const Spread& spread);

// Writes the data of these jobs into `folder`: ragged last batches (100 = 2 x 40 + 20), fewer
// samples than the most micro-batches.
void WriteSpreadData(const std::string& folder);

// Runs the job with data from `data` and returns the bytes of its weights; empty, and a failed
// test, when it did not end well.
std::string WeightsOf(const std::string& job, const std::string& data, const Spread& spread);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_E2E_SPREAD_JOB_H_
