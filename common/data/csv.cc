#include "common/data/csv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/csv_columns.h"
#include "common/data/csv_record.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"
#include "common/data/table.h"
#include "common/data/text_lines.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

// Stands for a missing input until the column's mean is known.
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

bool IsMissing(absl::string_view field) {
  const absl::string_view text = absl::StripAsciiWhitespace(field);
  return text.empty() || text == "NA" || absl::EqualsIgnoreCase(text, "nan");
}

class CsvReader {
 public:
  CsvReader(const v1::CsvDataSpec& spec, const ReadOptions& options, const CsvTraining* training)
      : spec_(spec), options_(options) {
    if (training != nullptr) columns_ = training->columns;
  }

  absl::Status ReadFile(const NamedFile& file) {
    ASSIGN_OR_RETURN(TextLines lines, TextLines::Open(file, &options_));
    CsvRecords records(&lines, spec_.separator().empty() ? ',' : spec_.separator()[0]);
    ASSIGN_OR_RETURN(bool more, records.Next(&fields_));
    if (!more) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.name, ":1: found an empty file, expected ",
                       spec_.no_header() ? "at least one line" : "the names of the columns"));
    }
    RETURN_IF_ERROR(CheckColumns(records.place()));
    if (!spec_.no_header()) {
      ASSIGN_OR_RETURN(more, records.Next(&fields_));
    }
    while (more) {
      RETURN_IF_ERROR(AddRecord(records.place()));
      ASSIGN_OR_RETURN(more, records.Next(&fields_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CsvData> Finish(const std::string& name) && {
    if (!table_.has_value() || table_->rows() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": found no sample",
                                                     skipped_ == 0 ? "" : " without missing values",
                                                     ", expected at least one"));
    }
    return CsvData{*std::move(table_), {*std::move(columns_), {}}, skipped_};
  }

 private:
  // On the first record of each file.
  absl::Status CheckColumns(const std::string& place) {
    std::vector<std::string> header;
    if (!spec_.no_header()) {
      for (const std::string& field : fields_)
        header.emplace_back(absl::StripAsciiWhitespace(field));
    }
    if (!columns_.has_value()) {
      ASSIGN_OR_RETURN(columns_, FindColumns(spec_, header, fields_.size(), place));
    }
    if (!table_.has_value()) {
      ASSIGN_OR_RETURN(Table table, Table::Create(columns_->input.size(), columns_->label.size(),
                                                  options_.max_memory_bytes));
      table_.emplace(std::move(table));
    }
    RETURN_IF_ERROR(CheckCount(place));
    for (size_t c = 0; c < header.size(); ++c) {
      if (header[c] == columns_->header[c]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": name of column ", c, ": found ", Shown(header[c]), ", expected ",
                       Shown(columns_->header[c]), ", as in the job's other files"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCount(const std::string& place) const {
    if (fields_.size() == columns_->count) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": found ", fields_.size(), " fields, expected ", columns_->count));
  }

  absl::Status Fault(const std::string& place, uint64_t column, const std::string& expected) const {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", columns_->Name(column), ": found ",
                                                   Shown(fields_[column]), ", expected ",
                                                   expected));
  }

  bool AnyMissing() const {
    const auto missing = [this](uint64_t column) { return IsMissing(fields_[column]); };
    return std::any_of(columns_->input.begin(), columns_->input.end(), missing) ||
           std::any_of(columns_->label.begin(), columns_->label.end(), missing);
  }

  absl::Status AddRecord(const std::string& place) {
    RETURN_IF_ERROR(CheckCount(place));
    if (spec_.missing() == v1::CsvDataSpec::SKIP_LINE && AnyMissing()) {
      ++skipped_;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Table::Row row, table_->Add(), "%s", place);
    for (size_t i = 0; i < columns_->input.size(); ++i) {
      RETURN_IF_ERROR(AddInput(place, columns_->input[i], row.inputs + i));
    }
    for (size_t i = 0; i < columns_->label.size(); ++i) {
      const uint64_t column = columns_->label[i];
      double value = 0;
      if (!ParseNumber(fields_[column], &value) ||
          !options_.rules.TakeLabel(value, row.labels + i)) {
        return Fault(place, column, options_.rules.expected_label());
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddInput(const std::string& place, uint64_t column, float* input) const {
    double value = 0;
    if (IsMissing(fields_[column])) {
      switch (spec_.missing()) {
        case v1::CsvDataSpec::ZERO:
          *input = 0;
          return absl::OkStatus();
        case v1::CsvDataSpec::COLUMN_MEAN:
          *input = kMissing;
          return absl::OkStatus();
        default:
          return Fault(place, column,
                       absl::StrCat(options_.rules.expected_input(),
                                    " (data.csv.missing says what to do with missing values)"));
      }
    }
    if (ParseNumber(fields_[column], &value) && options_.rules.TakeInput(value, input)) {
      return absl::OkStatus();
    }
    return Fault(place, column, options_.rules.expected_input());
  }

  const v1::CsvDataSpec& spec_;
  const ReadOptions& options_;
  std::optional<CsvColumns> columns_;
  std::optional<Table> table_;
  uint64_t skipped_ = 0;
  std::vector<std::string> fields_;
};

// Of each column without its missing values; NaN where all are missing.
std::vector<double> MeansOf(const Table& table) {
  std::vector<double> sums(table.columns(), 0);
  std::vector<uint64_t> counts(table.columns(), 0);
  for (uint64_t row = 0; row < table.rows(); ++row) {
    const float* inputs = table.InputsAt(row);
    for (uint64_t c = 0; c < table.columns(); ++c) {
      if (std::isnan(inputs[c])) continue;
      sums[c] += inputs[c];
      ++counts[c];
    }
  }
  for (uint64_t c = 0; c < table.columns(); ++c) sums[c] /= static_cast<double>(counts[c]);
  return sums;
}

void FillMissing(const std::vector<double>& means, Table* table) {
  for (uint64_t row = 0; row < table->rows(); ++row) {
    float* inputs = table->At(row).inputs;
    for (uint64_t c = 0; c < table->columns(); ++c) {
      if (std::isnan(inputs[c])) inputs[c] = static_cast<float>(means[c]);
    }
  }
}

}  // namespace

absl::StatusOr<CsvData> ReadCsv(const v1::CsvDataSpec& spec, const std::vector<NamedFile>& files,
                                const ReadOptions& options, const CsvTraining* training) {
  SANGAM_CHECK(!files.empty());
  CsvReader reader(spec, options, training);
  for (const NamedFile& file : files) RETURN_IF_ERROR(reader.ReadFile(file));
  ASSIGN_OR_RETURN(CsvData data, std::move(reader).Finish(files.front().name));
  if (spec.missing() != v1::CsvDataSpec::COLUMN_MEAN) return data;
  const CsvColumns& columns = data.training.columns;
  std::vector<double>& means = data.training.means;
  means = training != nullptr ? training->means : MeansOf(data.table);
  for (size_t c = 0; c < means.size(); ++c) {
    if (std::isfinite(means[c])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        files.front().name, ": ", columns.Name(columns.input[c]),
        ": found no value in the training set, expected at least one to take the mean of"));
  }
  FillMissing(means, &data.table);
  return data;
}

}  // namespace sangam
