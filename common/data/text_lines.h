#ifndef SANGAM_COMMON_DATA_TEXT_LINES_H_
#define SANGAM_COMMON_DATA_TEXT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"

namespace sangam {

// Reads a text file, gzipped or not, line by line. Not thread-safe.
class TextLines {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // `options` is borrowed.
  // Errors: as InputFile::Open
  static absl::StatusOr<TextLines> Open(const NamedFile& file, const ReadOptions* options);

  // Writes the next line, without "\n" or "\r\n", to `line`. False: there is none.
  // Errors: InvalidArgument  a line of more than kMaxLineBytes
  //         others           as InputFile::ReadSome; Cancelled
  absl::StatusOr<bool> Next(std::string* line);

  // "FILE:LINE", LINE of the last line that was read, counted from 1.
  std::string place() const;
  const std::string& name() const { return file_->name(); }

 private:
  TextLines(std::unique_ptr<InputFile> file, const ReadOptions* options)
      : file_(std::move(file)), options_(options) {}

  std::unique_ptr<InputFile> file_;
  const ReadOptions* options_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t line_ = 0;
};

// The number that `text` is, in decimal, spaces around it left out. False: it is none, or infinite;
// "nan" and "inf" are no numbers.
bool ParseNumber(absl::string_view text, double* number);

// A piece of a file for messages: quoted, escaped, cut when it is long.
std::string Shown(absl::string_view text);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_TEXT_LINES_H_
