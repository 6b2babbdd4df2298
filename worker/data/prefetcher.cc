#include "worker/data/prefetcher.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/data/batch_id.h"
#include "common/data/batch_reader.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

absl::Status CheckFits(const BatchOptions& options, const BatchReader& reader) {
  if (options.max_rows < reader.max_rows()) {
    return absl::InvalidArgumentError(absl::StrCat("max_rows: found ", options.max_rows,
                                                   ", expected at least ", reader.max_rows()));
  }
  if (options.input_elements > 0 && options.input_elements != reader.input_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("input_elements: found ", options.input_elements,
                                                   ", expected 0 or ", reader.input_elements()));
  }
  if (options.labels_per_sample > 0 && options.labels_per_sample != reader.labels_per_sample()) {
    return absl::InvalidArgumentError(absl::StrCat("labels_per_sample: found ",
                                                   options.labels_per_sample, ", expected 0 or ",
                                                   reader.labels_per_sample()));
  }
  return absl::OkStatus();
}

}  // namespace

Prefetcher::Prefetcher(std::unique_ptr<BatchBuffers> buffers, const BatchReader& reader,
                       BatchSequence sequence)
    : buffers_(std::move(buffers)), reader_(reader), sequence_(std::move(sequence)) {}

absl::StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Start(const BatchOptions& options,
                                                              const BatchReader& reader,
                                                              BatchSequence sequence) {
  RETURN_IF_ERROR(CheckFits(options, reader));
  ASSIGN_OR_RETURN(std::unique_ptr<BatchBuffers> buffers, BatchBuffers::Allocate(options));
  std::unique_ptr<Prefetcher> prefetcher(
      new Prefetcher(std::move(buffers), reader, std::move(sequence)));
  prefetcher->thread_ = std::thread([raw = prefetcher.get()] { raw->Work(); });
  return prefetcher;
}

Prefetcher::~Prefetcher() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::Work() {
  while (const std::optional<BatchBuffers::Target> target = buffers_->WaitForFree()) {
    Prepare(*target);
  }
}

void Prefetcher::Prepare(const BatchBuffers::Target& target) {
  const std::optional<BatchId> id = sequence_(target.lane);
  if (!id.has_value()) {
    buffers_->End(target, absl::OutOfRangeError(
                              absl::StrCat("lane ", target.lane, " has no more micro-batches")));
    return;
  }
  const absl::StatusOr<BatchRows> rows = reader_.Find(*id);
  const absl::Status status = rows.ok() ? Fill(*rows, target) : rows.status();
  if (status.ok()) {
    buffers_->Filled(target, *id, rows->size());
  } else {
    buffers_->End(target, status);
  }
}

absl::Status Prefetcher::Fill(const BatchRows& rows, const BatchBuffers::Target& target) {
  const BatchOptions& options = buffers_->options();
  float* inputs = target.inputs;
  uint32_t* labels = target.labels;
  if (inputs == nullptr && labels == nullptr) return absl::OkStatus();
  for (uint64_t r = 0; r < rows.size(); ++r) {
    if (buffers_->stopped()) return absl::CancelledError("the prefetcher was stopped");
    RETURN_IF_ERROR(rows.Read(r, inputs, labels));
    if (inputs != nullptr) inputs += options.input_elements;
    if (labels != nullptr) labels += options.labels_per_sample;
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> Prefetcher::Take(size_t lane, absl::Duration timeout) {
  return buffers_->Take(lane, timeout);
}

void Prefetcher::Stop() { buffers_->Stop(); }

}  // namespace sangam
