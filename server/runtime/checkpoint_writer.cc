#include "server/runtime/checkpoint_writer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/metrics/counters.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/core/optimizer.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/checkpoint_output.h"

namespace sangam {
namespace {

absl::StatusOr<CheckpointManifest> ManifestOf(const ControlPlane::CheckpointToWrite& checkpoint) {
  const v1::Assignment& assignment = *checkpoint.assignment;
  CheckpointManifest manifest;
  manifest.job = assignment.plan().job();
  manifest.step = checkpoint.step;
  manifest.updates = checkpoint.updates;
  const BatchCut cut{assignment.spec().batch().size(), assignment.plan().micro_batches(),
                     assignment.plan().shares(), assignment.train_samples()};
  manifest.samples = cut.EpochOf(checkpoint.step) * assignment.train_samples() +
                     cut.BatchSamples(checkpoint.step).begin;
  manifest.train_samples = assignment.train_samples();
  manifest.time = Clock::Real().Wall();
  manifest.layout_hash = LayoutHash(assignment.plan().layout());
  ASSIGN_OR_RETURN(const Optimizer optimizer, Optimizer::Create(assignment.spec().optimizer()));
  for (int i = 0; i < optimizer.state_count(); ++i) {
    manifest.state_names.emplace_back(optimizer.state_name(i));
  }
  manifest.worker_kind = checkpoint.worker_kind;
  manifest.owner = assignment.owner();
  manifest.spec = assignment.spec();
  return manifest;
}

void Count(const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all, absl::Duration took) {
  Counters& counters = ProcessCounters();
  if (!all.ok()) {
    const auto code = static_cast<size_t>(all.status().code());
    Counters::Add(&counters.checkpoint_failures[code], 1);
    return;
  }
  const auto took_us = static_cast<uint64_t>(absl::ToInt64Microseconds(took));
  Counters::Add(&counters.checkpoints, 1);
  Counters::Add(&counters.checkpoint_us, took_us);
  counters.checkpoint_last_us.store(took_us);
  counters.checkpoint_success_unix_us.store(
      static_cast<uint64_t>(absl::ToUnixMicros(Clock::Real().Wall())));
  if (!all->empty()) counters.checkpoint_bytes.store(all->back().bytes());
}

}  // namespace

CheckpointWriter::CheckpointWriter(Coordinator* coordinator, const CheckpointStore* store,
                                   ReadState read_state)
    : coordinator_(*coordinator), store_(*store), read_state_(std::move(read_state)) {}

CheckpointWriter::~CheckpointWriter() { Stop(); }

void CheckpointWriter::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Start() {
  thread_ = std::thread([this] { Run(); });
}

bool CheckpointWriter::AwaitIdle(absl::Duration timeout) {
  const absl::Duration end = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  while (awake_ || busy_) {
    const absl::Duration left = end - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

void CheckpointWriter::Wake() {
  MutexLock lock(&mutex_);
  awake_ = true;
  changed_.SignalAll();
}

void CheckpointWriter::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      busy_ = false;
      changed_.SignalAll();
      while (!awake_ && !stopping_) changed_.WaitFor(&mutex_, absl::Seconds(10));
      if (stopping_) return;
      awake_ = false;
      busy_ = true;
    }
    for (const uint64_t job : coordinator_.TakeUnwanted()) {
      const absl::Status removed = store_.RemoveJob(job);
      LogInfo("checkpoints removed", "job=%d status=%s", job, LogValue(removed.ToString()));
    }
    const std::optional<ControlPlane::CheckpointToWrite> checkpoint = coordinator_.TakeCheckpoint();
    if (!checkpoint.has_value()) continue;
    const absl::Duration begin = Clock::Real().Steady();
    const absl::StatusOr<std::vector<v1::CheckpointSummary>> all = Write(*checkpoint);
    Count(all, Clock::Real().Steady() - begin);
    LogInfo("checkpoint", "job=%d step=%d seconds=%.3f status=%s",
            checkpoint->assignment->plan().job(), checkpoint->step,
            absl::ToDoubleSeconds(Clock::Real().Steady() - begin),
            LogValue(all.status().ToString()));
    // Wakes this thread when there may be another one.
    coordinator_.OnCheckpoint(*checkpoint, all);
  }
}

absl::StatusOr<std::vector<v1::CheckpointSummary>> CheckpointWriter::Write(
    const ControlPlane::CheckpointToWrite& checkpoint) const {
  const v1::Assignment& assignment = *checkpoint.assignment;
  const uint64_t job = assignment.plan().job();
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ManifestOf(checkpoint));
  ASSIGN_OR_RETURN(CheckpointLayout layout,
                   CheckpointLayout::Create(assignment.plan().layout(), manifest.state_names));
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointOutput> output,
                   store_.BeginOutput(std::move(manifest), std::move(layout)));
  std::vector<bool> holds(static_cast<size_t>(assignment.plan().server_size()));
  for (const v1::SegmentPages& pages : assignment.plan().segment_pages()) {
    for (const uint32_t server : pages.server()) holds[server] = true;
  }
  for (size_t s = 0; s < holds.size(); ++s) {
    if (!holds[s]) continue;
    RETURN_IF_ERROR(
        read_state_(assignment.plan().server(static_cast<int>(s)).address(), job, checkpoint.step,
                    [&output](const v1::FrameHeader& header, absl::string_view payload) {
                      return output->Add(header, payload);
                    }));
  }
  RETURN_IF_ERROR(output->Commit().status());
  // The new one is complete: the oldest may go.
  if (const absl::Status pruned = store_.Prune(job, assignment.spec().checkpoint().keep(),
                                               checkpoint.step, coordinator_.StepsToKeep(job));
      !pruned.ok()) {
    LogWarning("old checkpoints remain", "job=%d status=%s", job, LogValue(pruned.ToString()));
  }
  return store_.SummariesOf(job);
}

}  // namespace sangam
