#include "common/plan/forecast_text.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

// "1 worker", "2 workers".
std::string Count(uint64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

void DescribeDataParallel(uint32_t shares, v1::StrategyForecast* forecast) {
  forecast->set_data(absl::StrCat("The ", Count(shares, "share"), " of each batch are split over ",
                                  Count(forecast->replicas(), "worker"), "."));
  forecast->set_purpose("More samples per second with a model that fits each worker.");
  forecast->set_method(
      "Each worker has the whole model, pushes the gradients of its shares to the servers and "
      "pulls the new weights.");
  forecast->set_scaling(absl::StrCat("To at most ", Count(shares, "worker"),
                                     ", one for each share; the servers' traffic grows with the "
                                     "workers."));
}

void DescribeModelParallel(v1::StrategyForecast* forecast) {
  forecast->set_data("The blocks of the model are split; every worker sees the whole batch.");
  forecast->set_purpose("Models that do not fit one worker, or links too slow for all gradients.");
  forecast->set_method(absl::StrCat(
      PipelineText(forecast->schedule(), forecast->ranks(), forecast->chunks()),
      ": activations of micro-batches flow from worker to worker, their gradients back."));
  forecast->set_scaling(
      "Memory per worker shrinks with the workers, at most one for each block; the pipeline fills "
      "and drains once a step, which more micro-batches hide.");
}

void DescribeHybrid(uint32_t shares, v1::StrategyForecast* forecast) {
  forecast->set_data(absl::StrCat("The ", Count(shares, "share"), " of each batch are split over ",
                                  Count(forecast->replicas(), "pipeline"),
                                  ", the blocks over the workers of each."));
  forecast->set_purpose("Models that do not fit one worker, at the speed of several pipelines.");
  forecast->set_method(absl::StrCat(
      PipelineText(forecast->schedule(), forecast->ranks(), forecast->chunks()), ", ",
      Count(forecast->replicas(), "pipeline"),
      "; workers that hold the same blocks push to the same pages, where gradients meet."));
  forecast->set_scaling(
      absl::StrCat("To at most ", Count(shares, "pipeline"),
                   ", one for each share, of at most one worker for each block."));
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  if (bytes < static_cast<uint64_t>(kMebibyte)) return absl::StrCat(bytes, " bytes");
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMebibyte);
}

std::string SecondsText(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.2f s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.1f us", seconds * 1e6);
}

std::string MemoryObstacle(const std::string& worker, uint64_t needed, uint64_t limit) {
  const bool alike = BytesText(needed) == BytesText(limit);
  return absl::StrCat("worker ", worker, " needs ",
                      alike ? absl::StrCat(needed, " bytes") : BytesText(needed), ", its limit is ",
                      alike ? absl::StrCat(limit, " bytes") : BytesText(limit));
}

std::string PipelineText(v1::Schedule schedule, uint32_t ranks, uint32_t chunks) {
  return absl::StrCat(v1::Schedule_Name(schedule), " with ", Count(ranks, "worker"), " and ",
                      Count(chunks, "stage"), " on each");
}

void Describe(uint32_t shares, v1::StrategyForecast* forecast) {
  switch (forecast->strategy()) {
    case v1::MODEL_PARALLEL:
      return DescribeModelParallel(forecast);
    case v1::HYBRID:
      return DescribeHybrid(shares, forecast);
    default:
      return DescribeDataParallel(shares, forecast);
  }
}

}  // namespace sangam
