#include "common/data/table_sets.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/data/csv.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"
#include "common/data/libsvm.h"
#include "common/data/normalisation.h"
#include "common/data/npy.h"
#include "common/data/read_options.h"
#include "common/data/set_files.h"
#include "common/data/table.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

struct ShapedTable {
  Table table;
  std::vector<uint64_t> shape;
};

class TableReader {
 public:
  TableReader(const v1::DataSpec& spec, const DataRoot& root) : spec_(spec), root_(root) {}

  absl::StatusOr<ShapedTable> Read(bool test, const ReadOptions& options) {
    ASSIGN_OR_RETURN(const SetFiles set, NameSet(spec_, test));
    if (!set.patterns) {
      ASSIGN_OR_RETURN(const NamedFile inputs, FindFile(root_, set.samples, set.samples_field));
      ASSIGN_OR_RETURN(const NamedFile labels, FindFile(root_, set.labels, set.labels_field));
      ASSIGN_OR_RETURN(NpyData data, ReadNpy(inputs, labels, options));
      return ShapedTable{std::move(data.table), std::move(data.shape)};
    }
    ASSIGN_OR_RETURN(const std::vector<NamedFile> files, FindSet(root_, set, options.cancelled));
    if (spec_.has_libsvm()) {
      ASSIGN_OR_RETURN(Table table, ReadLibsvm(files, spec_.libsvm().zero_based(), options), "%s",
                       set.samples_field);
      return ShapedTable{std::move(table), {options.rules.input_elements}};
    }
    ASSIGN_OR_RETURN(CsvData data,
                     ReadCsv(spec_.csv(), files, options, test ? &training_.value() : nullptr),
                     "%s", set.samples_field);
    skipped_lines_ += data.skipped_lines;
    const uint64_t columns = data.table.columns();
    if (!test) training_ = std::move(data.training);
    return ShapedTable{std::move(data.table), {columns}};
  }

  uint64_t skipped_lines() const { return skipped_lines_; }

 private:
  const v1::DataSpec& spec_;
  const DataRoot& root_;
  std::optional<CsvTraining> training_;
  uint64_t skipped_lines_ = 0;
};

absl::Status CheckSameShape(const ShapedTable& train, const ShapedTable& test) {
  if (train.shape == test.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: found test samples of [", absl::StrJoin(test.shape, ","), "], expected [",
                   absl::StrJoin(train.shape, ","), "], as the training set has them"));
}

std::unique_ptr<TableDataset> ToDataset(ShapedTable shaped, LabelKind label_kind) {
  return std::make_unique<TableDataset>(std::move(shaped.table), std::move(shaped.shape),
                                        label_kind);
}

}  // namespace

absl::StatusOr<TableSets> OpenTables(const v1::DataSpec& spec, const DataRoot& root, bool with_test,
                                     const ReadOptions& options) {
  TableReader reader(spec, root);
  ASSIGN_OR_RETURN(ShapedTable train, reader.Read(/*test=*/false, options));
  std::optional<ShapedTable> test;
  if (with_test) {
    ReadOptions rest = options;
    rest.max_memory_bytes -= train.table.memory_bytes();
    ASSIGN_OR_RETURN(test, reader.Read(/*test=*/true, rest));
    RETURN_IF_ERROR(CheckSameShape(train, *test));
  }
  TableSets sets;
  sets.skipped_lines = reader.skipped_lines();
  if (spec.standardize()) {
    sets.normalisation = ColumnStatistics(train.table);
  } else {
    ASSIGN_OR_RETURN(sets.normalisation, NormalisationOf(spec, train.shape.back()));
  }
  Normalise(sets.normalisation, &train.table);
  sets.train = ToDataset(std::move(train), options.rules.label_kind);
  if (!test.has_value()) return sets;
  Normalise(sets.normalisation, &test->table);
  sets.test = ToDataset(*std::move(test), options.rules.label_kind);
  return sets;
}

}  // namespace sangam
