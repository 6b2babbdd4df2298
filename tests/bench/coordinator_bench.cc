// How many reports of steps the coordinator takes in a second, with its state in memory only and on
// disk: one worker's calls one after another, each with the losses of one step.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/runtime/coordinator.h"
#include "server/runtime/job_store.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

v1::ReportRequest RequestOf(const v1::DaemonIdentity& daemon, const v1::JobReport& report) {
  v1::ReportRequest request;
  *request.mutable_daemon() = daemon;
  request.set_job(1);
  request.set_generation(1);
  *request.add_report() = report;
  return request;
}

void BM_Report(benchmark::State& state) {
  if (!SetLogLevel("error").ok()) std::abort();
  const bool on_disk = state.range(0) != 0;
  const auto workers = static_cast<uint32_t>(state.range(1));
  std::unique_ptr<JobStore> store;
  Coordinator::Options options;
  options.keep_records = on_disk;
  Coordinator coordinator(options, &Clock::Real());
  if (on_disk) {
    std::string folder = std::filesystem::temp_directory_path() / "coordinator-bench-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    auto opened = JobStore::Open(folder + "/sangam.db");
    if (!opened.ok()) std::abort();
    store = *std::move(opened);
    if (!coordinator.Restore(store.get()).ok()) std::abort();
  }
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = testing::SmallJob("bench", workers, 1);
  submit.mutable_spec()->set_steps(1'000'000'000);
  submit.set_await_daemons(true);
  if (!coordinator.Submit(submit).ok()) std::abort();
  std::vector<v1::DaemonIdentity> daemons = {testing::Daemon(v1::SERVER, "s-1")};
  for (uint32_t w = 1; w <= workers; ++w) {
    daemons.push_back(testing::Daemon(v1::WORKER, "w-" + std::to_string(w)));
  }
  for (const v1::DaemonIdentity& daemon : daemons) {
    if (!coordinator.Register(testing::Registration(daemon)).ok()) std::abort();
  }
  coordinator.Tick();
  for (const v1::DaemonIdentity& daemon : daemons) {
    if (!coordinator.Report(RequestOf(daemon, testing::Ready())).ok()) std::abort();
  }
  const v1::Plan plan = testing::PlanOf(testing::SmallJob("bench", workers, 1));
  uint64_t step = 0;
  for (auto _ : state) {
    for (uint32_t w = 0; w < workers; ++w) {
      const v1::JobReport report = testing::Step(plan.worker(static_cast<int>(w)), step);
      if (!coordinator.Report(RequestOf(daemons[w + 1], report)).ok()) std::abort();
    }
    ++step;
  }
  state.counters["reports/s"] =
      benchmark::Counter(static_cast<double>(step * workers), benchmark::Counter::kIsRate);
  state.SetLabel(on_disk ? "on disk" : "in memory");
}
BENCHMARK(BM_Report)->ArgsProduct({{0, 1}, {1, 4}})->UseRealTime();

}  // namespace
}  // namespace sangam
