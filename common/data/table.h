#ifndef SANGAM_COMMON_DATA_TABLE_H_
#define SANGAM_COMMON_DATA_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/dataset.h"
#include "common/data/record_store.h"
#include "common/data/sample_rules.h"

namespace sangam {

// Samples of binary32 numbers with their labels, in memory. Not thread-safe while it changes.
class Table {
 public:
  // A sample's place.
  struct Row {
    float* inputs;
    uint32_t* labels;
  };

  // `columns` inputs and `labels` labels for each sample; both > 0.
  // Errors: ResourceExhausted  a single sample is larger than 64 bits can say
  static absl::StatusOr<Table> Create(uint64_t columns, uint64_t labels, uint64_t max_memory_bytes);

  // A new row, undefined.
  // Errors: as RecordStore::Add
  absl::StatusOr<Row> Add();
  void RemoveLast() { store_.RemoveLast(); }
  // Whether it may have `count` rows.
  absl::Status CheckRoom(uint64_t count) const { return store_.CheckRoom(count); }

  uint64_t rows() const { return store_.size(); }
  uint64_t columns() const { return columns_; }
  uint64_t labels() const { return labels_; }
  uint64_t memory_bytes() const { return store_.memory_bytes(); }
  // REQUIRES: row < rows().
  Row At(uint64_t row);
  const float* InputsAt(uint64_t row) const;
  const uint32_t* LabelsAt(uint64_t row) const;

 private:
  Table(uint64_t columns, uint64_t labels, RecordStore store)
      : columns_(columns), labels_(labels), store_(std::move(store)) {}

  uint64_t columns_;
  uint64_t labels_;
  RecordStore store_;
};

// A table whose rows are the samples.
class TableDataset : public Dataset {
 public:
  // `shape`: of one sample; the table's columns are its elements in row-major order.
  // REQUIRES: table.rows() > 0.
  TableDataset(Table table, std::vector<uint64_t> shape, LabelKind label_kind);

  uint64_t num_samples() const override { return table_.rows(); }
  const std::vector<uint64_t>& sample_shape() const override { return sample_shape_; }
  uint64_t sample_elements() const override { return table_.columns(); }
  uint64_t labels_per_sample() const override { return table_.labels(); }
  LabelKind label_kind() const override { return label_kind_; }
  uint32_t num_classes() const override { return num_classes_; }
  uint64_t memory_bytes() const override { return table_.memory_bytes(); }
  absl::Status Read(uint64_t sample, float* row, uint32_t* labels) const override;

 private:
  const Table table_;
  const std::vector<uint64_t> sample_shape_;
  const LabelKind label_kind_;
  uint32_t num_classes_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_TABLE_H_
