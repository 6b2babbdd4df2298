#include "worker/rpc/batch_assembly.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/data/batch_id.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

std::string Describe(const BatchId& id) {
  return absl::StrCat(id.evaluation ? "chunk " : "micro-batch ", id.index,
                      id.evaluation ? " of the test set at step " : " of step ", id.step);
}

// A value that this version does not know has no name.
std::string NameOf(const std::string& name, int value) {
  return name.empty() ? absl::StrCat(value) : name;
}

}  // namespace

BatchAssembly::BatchAssembly(const BatchOptions& options, const BatchId& id,
                             const BatchBuffers::Target& target)
    : options_(options), id_(id), target_(target) {}

void BatchAssembly::Restart() {
  began_ = false;
  rows_ = 0;
  inputs_complete_ = false;
  received_ = 0;
}

absl::Status BatchAssembly::CheckBelongs(const v1::FrameHeader& header) const {
  const BatchId found = {header.evaluation(), header.step(), header.micro_batch()};
  if (!(found == id_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", Describe(found), ", expected ", Describe(id_)));
  }
  const v1::FrameKind kind = expects_inputs() ? v1::FRAME_KIND_INPUTS : v1::FRAME_KIND_LABELS;
  if (header.kind() != kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: found ", NameOf(v1::FrameKind_Name(header.kind()), header.kind()),
                     ", expected ", v1::FrameKind_Name(kind)));
  }
  const v1::Encoding encoding = expects_inputs() ? v1::ENCODING_FP32 : v1::ENCODING_UINT32;
  if (header.encoding() != encoding) {
    return absl::InvalidArgumentError(absl::StrCat(
        "encoding: found ", NameOf(v1::Encoding_Name(header.encoding()), header.encoding()),
        ", expected ", v1::Encoding_Name(encoding)));
  }
  return absl::OkStatus();
}

absl::Status BatchAssembly::CheckShape(const v1::FrameHeader& header, size_t payload_bytes) const {
  if (began_ ? header.rows() != rows_ : header.rows() > options_.max_rows) {
    return absl::InvalidArgumentError(absl::StrCat("rows: found ", header.rows(), ", expected ",
                                                   began_ ? "" : "at most ",
                                                   began_ ? rows_ : options_.max_rows));
  }
  const uint64_t columns = expects_inputs() ? options_.input_elements : options_.labels_per_sample;
  if (header.columns() != columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("columns: found ", header.columns(), ", expected ", columns));
  }
  if (header.first_element() != received_) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_element: found ", header.first_element(), ", expected ", received_));
  }
  const uint64_t left = header.rows() * columns - received_;
  if (header.element_count() > left || (header.element_count() == 0 && left > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("element_count: found ", header.element_count(), ", expected 1 to ", left));
  }
  // Floats and labels have the same size.
  if (payload_bytes != header.element_count() * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat("payload: found ", payload_bytes,
                                                   " bytes, expected ",
                                                   header.element_count() * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchAssembly::Add(const v1::FrameHeader& header,
                                        const SlicePayload& elements) {
  RETURN_IF_ERROR(CheckBelongs(header));
  RETURN_IF_ERROR(CheckShape(header, elements.size()), "%s", Describe(id_));
  began_ = true;
  rows_ = header.rows();
  if (elements.size() > 0) {
    elements.CopyTo(expects_inputs() ? static_cast<void*>(target_.inputs + received_)
                                     : static_cast<void*>(target_.labels + received_));
  }
  received_ += header.element_count();
  if (received_ < rows_ * header.columns()) return false;
  if (expects_inputs() && options_.labels_per_sample > 0) {
    inputs_complete_ = true;
    received_ = 0;
    return false;
  }
  return true;
}

}  // namespace sangam
