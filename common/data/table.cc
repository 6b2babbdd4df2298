#include "common/data/table.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/record_store.h"

namespace sangam {

// A record is the inputs and, behind them, the labels: words of 32 bits all.
absl::StatusOr<Table> Table::Create(uint64_t columns, uint64_t labels, uint64_t max_memory_bytes) {
  SANGAM_CHECK(columns > 0 && labels > 0);
  constexpr uint64_t kMaxWords = std::numeric_limits<int64_t>::max() / sizeof(uint32_t);
  if (columns > kMaxWords || labels > kMaxWords - columns) {
    return absl::ResourceExhaustedError(absl::StrCat("samples of ", columns, " inputs and ", labels,
                                                     " labels are larger than any memory"));
  }
  return Table(columns, labels,
               RecordStore((columns + labels) * sizeof(uint32_t), max_memory_bytes));
}

absl::StatusOr<Table::Row> Table::Add() {
  RETURN_IF_ERROR(store_.Add().status());
  return At(store_.size() - 1);
}

Table::Row Table::At(uint64_t row) {
  uint8_t* record = store_.At(row);
  return {reinterpret_cast<float*>(record),
          reinterpret_cast<uint32_t*>(record + columns_ * sizeof(float))};
}

const float* Table::InputsAt(uint64_t row) const {
  return reinterpret_cast<const float*>(store_.At(row));
}

const uint32_t* Table::LabelsAt(uint64_t row) const {
  return reinterpret_cast<const uint32_t*>(store_.At(row) + columns_ * sizeof(float));
}

TableDataset::TableDataset(Table table, std::vector<uint64_t> shape, LabelKind label_kind)
    : table_(std::move(table)), sample_shape_(std::move(shape)), label_kind_(label_kind) {
  SANGAM_CHECK(table_.rows() > 0);
  if (label_kind == LabelKind::kNumber) return;
  for (uint64_t row = 0; row < table_.rows(); ++row) {
    const uint32_t* labels = table_.LabelsAt(row);
    num_classes_ = std::max(num_classes_, 1 + *std::max_element(labels, labels + table_.labels()));
  }
}

absl::Status TableDataset::Read(uint64_t sample, float* row, uint32_t* labels) const {
  if (sample >= num_samples()) {
    return absl::OutOfRangeError(
        absl::StrCat("sample ", sample, ": expected less than ", num_samples()));
  }
  if (row != nullptr) std::copy_n(table_.InputsAt(sample), table_.columns(), row);
  if (labels != nullptr) std::copy_n(table_.LabelsAt(sample), table_.labels(), labels);
  return absl::OkStatus();
}

}  // namespace sangam
