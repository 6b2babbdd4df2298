#include "server/runtime/checkpoint_store.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/job_scope.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

constexpr char kStep[] = "step-";
constexpr char kRemoved[] = ".removed";

// A whole number written in digits alone.
std::optional<uint64_t> Number(absl::string_view text) {
  uint64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!digits || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// Numbers behind `prefix` in the names of the folders in `path`, ascending.
std::vector<uint64_t> NumberedFolders(const std::string& path, absl::string_view prefix) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    const std::optional<uint64_t> number = Number(rest);
    std::error_code ignored;
    if (number.has_value() && it->is_directory(ignored)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Names of the folders of checkpoints in `path` that end with `ending`.
std::vector<std::string> FoldersEnding(const std::string& path, absl::string_view ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (absl::StartsWith(name, kStep) && absl::EndsWith(name, ending)) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  const int64_t micros = absl::ToUnixMicros(time);
  timestamp.set_seconds(micros / 1'000'000);
  timestamp.set_nanos(static_cast<int32_t>(micros % 1'000'000) * 1000);
  return timestamp;
}

v1::Checkpoint ToCheckpoint(const CheckpointManifest& manifest, const std::string& folder) {
  v1::Checkpoint checkpoint;
  checkpoint.set_job(manifest.job);
  checkpoint.set_job_name(manifest.spec.name());
  checkpoint.set_step(manifest.step);
  *checkpoint.mutable_time() = ToTimestamp(manifest.time);
  checkpoint.set_bytes(manifest.bytes());
  checkpoint.set_folder(folder);
  checkpoint.set_owner(manifest.owner);
  return checkpoint;
}

absl::Status NoCheckpoint(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint \"", name, "\": there is none; see sangam checkpoint list"));
}

}  // namespace

std::string CheckpointStore::JobFolder(uint64_t job) const { return absl::StrCat(root_, "/", job); }

std::string CheckpointStore::Folder(uint64_t job, uint64_t step) const {
  return absl::StrCat(JobFolder(job), "/", kStep, step);
}

std::vector<uint64_t> CheckpointStore::Jobs() const { return NumberedFolders(root_, ""); }

std::vector<uint64_t> CheckpointStore::Steps(uint64_t job) const {
  return NumberedFolders(JobFolder(job), kStep);
}

uint64_t CheckpointStore::LargestJob() const {
  const std::vector<uint64_t> jobs = Jobs();
  return jobs.empty() ? 0 : jobs.back();
}

std::optional<CheckpointManifest> CheckpointStore::AnyManifest(uint64_t job) const {
  for (const uint64_t step : Steps(job)) {
    absl::StatusOr<CheckpointManifest> manifest = ReadManifest(Folder(job, step));
    if (manifest.ok()) return *std::move(manifest);
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> CheckpointStore::FindJob(absl::string_view id_or_name,
                                                  const JobScope& scope) const {
  if (const std::optional<uint64_t> id = Number(id_or_name); id.has_value()) {
    if (Steps(*id).empty()) return NoCheckpoint(id_or_name);
    if (scope.is_all()) return *id;
    const std::optional<CheckpointManifest> manifest = AnyManifest(*id);
    if (!manifest.has_value() || !scope.Includes(manifest->owner)) return NoCheckpoint(id_or_name);
    return *id;
  }
  std::vector<uint64_t> jobs = Jobs();
  std::reverse(jobs.begin(), jobs.end());
  for (const uint64_t job : jobs) {
    const std::optional<CheckpointManifest> manifest = AnyManifest(job);
    if (!manifest.has_value()) continue;
    if (manifest->spec.name() == id_or_name && scope.Includes(manifest->owner)) return job;
  }
  return NoCheckpoint(id_or_name);
}

absl::StatusOr<CheckpointStore::Name> CheckpointStore::Parse(absl::string_view checkpoint,
                                                             const JobScope& scope) const {
  const size_t slash = checkpoint.find('/');
  Name name;
  if (slash != absl::string_view::npos) {
    name.step = Number(checkpoint.substr(slash + 1));
    if (!name.step.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint: found \"", checkpoint, "\", expected JOB or JOB/STEP"));
    }
  }
  const absl::StatusOr<uint64_t> job = FindJob(checkpoint.substr(0, slash), scope);
  if (!job.ok()) return NoCheckpoint(checkpoint);
  name.job = *job;
  return name;
}

absl::StatusOr<CheckpointStore::Name> CheckpointStore::NameOf(absl::string_view checkpoint,
                                                              const JobScope& scope) const {
  ASSIGN_OR_RETURN(Name name, Parse(checkpoint, scope));
  const std::vector<uint64_t> steps = Steps(name.job);
  if (!name.step.has_value() && !steps.empty()) name.step = steps.back();
  if (!std::binary_search(steps.begin(), steps.end(), name.step.value_or(UINT64_MAX))) {
    return NoCheckpoint(checkpoint);
  }
  return name;
}

absl::StatusOr<std::vector<v1::Checkpoint>> CheckpointStore::List(absl::string_view id_or_name,
                                                                  const JobScope& scope) const {
  std::vector<uint64_t> jobs = Jobs();
  if (!id_or_name.empty()) {
    ASSIGN_OR_RETURN(const uint64_t job, FindJob(id_or_name, scope));
    jobs = {job};
  }
  std::vector<v1::Checkpoint> checkpoints;
  for (const uint64_t job : jobs) {
    for (const uint64_t step : Steps(job)) {
      const std::string folder = Folder(job, step);
      const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(folder);
      if (manifest.ok() && scope.Includes(manifest->owner)) {
        checkpoints.push_back(ToCheckpoint(*manifest, folder));
      }
    }
  }
  return checkpoints;
}

absl::StatusOr<v1::Checkpoint> CheckpointStore::Get(absl::string_view checkpoint,
                                                    const JobScope& scope) const {
  ASSIGN_OR_RETURN(const Name name, NameOf(checkpoint, scope));
  const std::string folder = Folder(name.job, *name.step);
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(folder));
  v1::Checkpoint found = ToCheckpoint(manifest, folder);
  *found.mutable_spec() = std::move(manifest.spec);
  return found;
}

absl::StatusOr<v1::Checkpoint> CheckpointStore::Verify(absl::string_view checkpoint,
                                                       const JobScope& scope) const {
  ASSIGN_OR_RETURN(const Name name, NameOf(checkpoint, scope));
  const std::string folder = Folder(name.job, *name.step);
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointInput> input, CheckpointInput::Open(folder));
  RETURN_IF_ERROR(input->Verify(), "%s", folder);
  return ToCheckpoint(input->manifest(), folder);
}

absl::StatusOr<CheckpointStore::Found> CheckpointStore::FindToResume(absl::string_view checkpoint,
                                                                     const JobScope& scope) const {
  ASSIGN_OR_RETURN(const Name name, Parse(checkpoint, scope));
  std::vector<uint64_t> steps = Steps(name.job);
  if (name.step.has_value()) {
    ASSIGN_OR_RETURN(const Name found, NameOf(checkpoint, scope));
    steps = {*found.step};
  }
  Found result;
  absl::Status last = NoCheckpoint(checkpoint);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    result.folder = Folder(name.job, *step);
    const auto input = CheckpointInput::Open(result.folder);
    last = input.ok() ? (*input)->Verify() : input.status();
    if (last.ok()) {
      result.manifest = (*input)->manifest();
      return result;
    }
    result.skipped.push_back(absl::StrCat("step ", *step, ": ", last.message()));
  }
  return last;
}

absl::StatusOr<CheckpointStore::Found> CheckpointStore::Find(absl::string_view checkpoint) const {
  ASSIGN_OR_RETURN(const Name name, NameOf(checkpoint, JobScope()));
  Found found;
  found.folder = Folder(name.job, *name.step);
  ASSIGN_OR_RETURN(found.manifest, ReadManifest(found.folder));
  return found;
}

absl::StatusOr<std::unique_ptr<CheckpointInput>> CheckpointStore::OpenInput(uint64_t job,
                                                                            uint64_t step) const {
  return CheckpointInput::Open(Folder(job, step));
}

absl::StatusOr<std::unique_ptr<CheckpointOutput>> CheckpointStore::BeginOutput(
    CheckpointManifest manifest, CheckpointLayout layout) const {
  const std::string folder = JobFolder(manifest.job);
  // Nobody else writes or prunes here, so they are what killed processes have left.
  RETURN_IF_ERROR(RemoveLeftoversIn(folder));
  uint64_t needed = 0;
  for (size_t file = 0; file < CheckpointLayout::kFiles; ++file) needed += layout.file_size(file);
  // Better nothing than a disk that is full for everybody.
  if (const absl::StatusOr<uint64_t> free = disk_.FreeBytes(root_); free.ok() && *free < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a checkpoint takes ", needed, " bytes, the disk of \"", root_, "\" has ", *free, " left"));
  }
  return CheckpointOutput::Begin(&disk_, folder, std::move(manifest), std::move(layout));
}

std::vector<v1::CheckpointSummary> CheckpointStore::SummariesOf(uint64_t job) const {
  std::vector<v1::CheckpointSummary> summaries;
  for (const uint64_t step : Steps(job)) {
    const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(Folder(job, step));
    if (!manifest.ok()) continue;
    v1::CheckpointSummary summary;
    summary.set_step(step);
    *summary.mutable_time() = ToTimestamp(manifest->time);
    summary.set_bytes(manifest->bytes());
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

absl::Status CheckpointStore::Prune(uint64_t job, uint32_t keep, uint64_t written,
                                    const std::set<uint64_t>& needed) const {
  const std::vector<uint64_t> steps = Steps(job);
  uint32_t kept = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step > written) continue;
    const std::string folder = Folder(job, *step);
    if (kept < std::max(keep, 1u)) {
      kept += *step == written || CheckpointInput::Open(folder).ok() ? 1 : 0;
      continue;
    }
    if (needed.count(*step) != 0) continue;
    // First out of sight, so that a reader never meets half of one.
    RETURN_IF_ERROR(disk_.Rename(folder, folder + kRemoved));
    RETURN_IF_ERROR(disk_.RemoveFolder(folder + kRemoved));
  }
  return absl::OkStatus();
}

absl::Status CheckpointStore::RemoveLeftovers() const {
  for (const uint64_t job : Jobs()) RETURN_IF_ERROR(RemoveLeftoversIn(JobFolder(job)));
  return absl::OkStatus();
}

absl::Status CheckpointStore::RemoveLeftoversIn(const std::string& folder) const {
  for (const std::string& name : FoldersEnding(folder, CheckpointOutput::kReplaced)) {
    const std::string replaced = absl::StrCat(folder, "/", name);
    const std::string taken(absl::StripSuffix(replaced, CheckpointOutput::kReplaced));
    std::error_code ignored;
    // Whatever has the name is complete.
    RETURN_IF_ERROR(std::filesystem::exists(taken, ignored) ? disk_.RemoveFolder(replaced)
                                                            : disk_.Rename(replaced, taken));
  }
  for (const absl::string_view ending : {kRemoved, CheckpointOutput::kPartial}) {
    for (const std::string& name : FoldersEnding(folder, ending)) {
      RETURN_IF_ERROR(disk_.RemoveFolder(absl::StrCat(folder, "/", name)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointStore::RemoveJob(uint64_t job) const {
  return disk_.RemoveFolder(JobFolder(job));
}

}  // namespace sangam
