#include "common/base/job_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sangam {
namespace {

constexpr absl::string_view kJobField = " job=";

// What other programs take in as text: other bytes become '?'.
std::string AsciiOf(absl::string_view text) {
  std::string ascii(text);
  for (char& c : ascii) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return ascii;
}

}  // namespace

std::optional<uint64_t> JobOfLine(absl::string_view line) {
  const size_t field = line.find(kJobField);
  if (field == absl::string_view::npos) return std::nullopt;
  const absl::string_view value = line.substr(field + kJobField.size());
  uint64_t job = 0;
  if (!absl::SimpleAtoi(value.substr(0, value.find(' ')), &job)) return std::nullopt;
  return job;
}

void JobLog::OnLine(LogLevel level, absl::string_view line) {
  if (level == LogLevel::kDebug) return;
  const std::optional<uint64_t> job = JobOfLine(line);
  if (!job.has_value()) return;
  Line kept{options_.clock->Wall(), level, AsciiOf(line.substr(0, options_.max_line_bytes))};
  MutexLock lock(&mutex_);
  if (waiting_.size() >= options_.max_lines) {
    ++dropped_;
    return;
  }
  waiting_.push_back({*job, std::move(kept)});
}

JobLog::Batch JobLog::Take(size_t max) {
  Batch batch;
  MutexLock lock(&mutex_);
  if (waiting_.empty()) return batch;
  batch.job = waiting_.front().job;
  std::deque<Waiting> others;
  for (Waiting& waiting : waiting_) {
    if (waiting.job == batch.job && batch.lines.size() < max) {
      batch.lines.push_back(std::move(waiting.line));
    } else {
      others.push_back(std::move(waiting));
    }
  }
  waiting_ = std::move(others);
  if (dropped_ > 0) {
    batch.lines.push_back({batch.lines.back().time, LogLevel::kWarning,
                           absl::StrCat("log lines dropped count=", dropped_)});
    dropped_ = 0;
  }
  return batch;
}

bool JobLog::empty() const {
  MutexLock lock(&mutex_);
  return waiting_.empty();
}

}  // namespace sangam
