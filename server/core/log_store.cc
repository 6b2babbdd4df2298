#include "server/core/log_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/job_service.pb.h"
#include "server/core/shortened.h"

namespace sangam {

void LogStore::Add(uint64_t id, v1::LogLine line) {
  if (jobs_.count(id) == 0) {
    MakeRoomForJob();
    jobs_[id].begin = begin_;
    jobs_[id].last_revision = begin_;
  }
  Job& job = jobs_[id];
  job.last_add = ++adds_;
  line.set_revision(++job.last_revision);
  line.set_text(Shortened(line.text(), options_.max_line_bytes));
  job.bytes += line.text().size();
  job.lines.push_back(std::move(line));
  while (job.lines.size() > options_.max_lines ||
         (job.bytes > options_.max_bytes && job.lines.size() > 1)) {
    job.bytes -= job.lines.front().text().size();
    job.lines.pop_front();
  }
}

void LogStore::MakeRoomForJob() {
  if (jobs_.size() < options_.max_jobs) return;
  const auto quiet =
      std::min_element(jobs_.begin(), jobs_.end(), [](const auto& one, const auto& other) {
        return one.second.last_add < other.second.last_add;
      });
  // Its numbers must not come again should it be logged about once more.
  begin_ = std::max(begin_, quiet->second.last_revision);
  jobs_.erase(quiet);
}

LogStore::Lines LogStore::After(uint64_t id, uint64_t after, absl::string_view daemon,
                                size_t max) const {
  Lines result;
  result.revision = after;
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return result;
  const std::deque<v1::LogLine>& lines = found->second.lines;
  // Of a coordinator that kept no state, whose lines are gone: these are all new.
  if (after > found->second.last_revision) after = 0;
  // How many there were before is not known.
  after = std::max(after, found->second.begin);
  auto line = std::upper_bound(
      lines.begin(), lines.end(), after,
      [](uint64_t revision, const v1::LogLine& kept) { return revision < kept.revision(); });
  const uint64_t dropped = line == lines.end() ? 0 : line->revision() - after - 1;
  for (; line != lines.end() && result.lines.size() < max; ++line) {
    result.revision = line->revision();
    const bool asked = daemon.empty() || line->daemon() == daemon ||
                       absl::EndsWith(line->daemon(), absl::StrCat(" ", daemon));
    if (!asked) continue;
    result.lines.push_back(*line);
  }
  if (!result.lines.empty()) result.lines.front().set_dropped(dropped);
  return result;
}

}  // namespace sangam
