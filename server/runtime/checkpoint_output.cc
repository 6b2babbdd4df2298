#include "server/runtime/checkpoint_output.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/tensor.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_input.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/disk.h"
#include "xxhash.h"

namespace sangam {
namespace {

constexpr uint64_t kElementBytes = sizeof(float);

template <typename Found, typename Expected>
absl::Status BadFrame(absl::string_view field, const Found& found, const Expected& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("frame's ", field, ": found ", found, ", expected ", expected));
}

}  // namespace

CheckpointOutput::CheckpointOutput(Disk* disk, std::string folder, CheckpointManifest manifest,
                                   CheckpointLayout layout)
    : disk_(*disk),
      folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      layout_(std::move(layout)),
      final_(absl::StrCat(folder_, "/step-", manifest_.step)),
      partial_(absl::StrCat(final_, kPartial)),
      replaced_(absl::StrCat(final_, kReplaced)) {}

absl::StatusOr<std::unique_ptr<CheckpointOutput>> CheckpointOutput::Begin(
    Disk* disk, const std::string& folder, CheckpointManifest manifest, CheckpointLayout layout) {
  auto output =
      absl::WrapUnique(new CheckpointOutput(disk, folder, std::move(manifest), std::move(layout)));
  RETURN_IF_ERROR(output->Open());
  return output;
}

CheckpointOutput::~CheckpointOutput() {
  for (auto& file : files_) file.reset();
  // Best effort: the next checkpoint of this step removes what remains.
  if (!committed_) disk_.RemoveFolder(partial_).IgnoreError();
}

std::string CheckpointOutput::Path(absl::string_view name) const {
  return absl::StrCat(partial_, "/", name);
}

absl::Status CheckpointOutput::Open() {
  RETURN_IF_ERROR(disk_.RemoveFolder(partial_));
  RETURN_IF_ERROR(disk_.MakeFolder(partial_));
  // The job's folder may be new.
  RETURN_IF_ERROR(disk_.SyncFolder(std::filesystem::path(folder_).parent_path().string()));
  for (size_t f = 0; f < files_.size(); ++f) {
    ASSIGN_OR_RETURN(files_[f], disk_.Create(Path(CheckpointLayout::kFileNames[f])));
    RETURN_IF_ERROR(disk_.Write(*files_[f], 0, layout_.header(f)));
  }
  return absl::OkStatus();
}

absl::Status CheckpointOutput::CheckHeader(const v1::FrameHeader& header,
                                           size_t payload_bytes) const {
  if (header.kind() != v1::FRAME_KIND_STATE) {
    return BadFrame("kind", static_cast<int>(header.kind()), "STATE");
  }
  if (header.encoding() != v1::ENCODING_FP32) {
    return BadFrame("encoding", static_cast<int>(header.encoding()), "FP32");
  }
  if (header.job() != manifest_.job) return BadFrame("job", header.job(), manifest_.job);
  if (header.step() != manifest_.step) return BadFrame("step", header.step(), manifest_.step);
  const uint64_t bytes = header.element_count() * kElementBytes * layout_.num_arrays();
  if (payload_bytes != bytes) {
    return BadFrame("payload", absl::StrCat(payload_bytes, " bytes"), bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckpointOutput::Add(const v1::FrameHeader& header, absl::string_view payload) {
  RETURN_IF_ERROR(CheckHeader(header, payload.size()));
  const uint64_t begin = header.first_element();
  const uint64_t end = begin + header.element_count();
  ASSIGN_OR_RETURN(const std::vector<CheckpointLayout::Piece> pieces,
                   layout_.Pieces(header.segment(), begin, header.element_count()));
  const auto after = ranges_.lower_bound({header.segment(), begin});
  const bool meets_next =
      after != ranges_.end() && after->first.first == header.segment() && after->first.second < end;
  const bool meets_previous = after != ranges_.begin() &&
                              std::prev(after)->first.first == header.segment() &&
                              std::prev(after)->second > begin;
  if (meets_next || meets_previous) {
    return absl::InvalidArgumentError(absl::StrCat("elements [", begin, ", ", end, ") of segment ",
                                                   header.segment(), " have come twice"));
  }
  for (const CheckpointLayout::Piece& piece : pieces) {
    const uint64_t element = piece.array * header.element_count() + piece.first;
    RETURN_IF_ERROR(
        disk_.Write(*files_[piece.file], piece.offset,
                    payload.substr(element * kElementBytes, piece.count * kElementBytes)));
  }
  ranges_[{header.segment(), begin}] = end;
  elements_ += header.element_count();
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFile> CheckpointOutput::Sum(size_t file) const {
  CheckpointFile sum;
  sum.name = CheckpointLayout::kFileNames[file];
  sum.bytes = layout_.file_size(file);
  std::vector<char> block(std::min(kCheckpointBlockBytes, sum.bytes));
  for (uint64_t offset = 0; offset < sum.bytes; offset += kCheckpointBlockBytes) {
    const auto count = static_cast<size_t>(std::min(kCheckpointBlockBytes, sum.bytes - offset));
    RETURN_IF_ERROR(ReadExactly(*files_[file], offset, count, block.data()));
    sum.checksums.push_back(XXH3_64bits(block.data(), count));
  }
  return sum;
}

std::optional<CheckpointManifest> CheckpointOutput::Existing() const {
  const absl::StatusOr<std::unique_ptr<CheckpointInput>> input = CheckpointInput::Open(final_);
  if (!input.ok()) return std::nullopt;
  const auto same = [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.name == b.name && a.bytes == b.bytes && a.checksums == b.checksums;
  };
  const std::vector<CheckpointFile>& files = (*input)->manifest().files;
  if (!std::equal(files.begin(), files.end(), manifest_.files.begin(), manifest_.files.end(),
                  same) ||
      !(*input)->Verify().ok()) {
    return std::nullopt;
  }
  return (*input)->manifest();
}

absl::Status CheckpointOutput::TakeName() {
  std::error_code ignored;
  if (!std::filesystem::exists(final_, ignored)) return disk_.Rename(partial_, final_);
  // One that is damaged, or was made in another way; it may be the only one that is good.
  const absl::Status exchanged = disk_.Exchange(partial_, final_);
  if (!absl::IsUnimplemented(exchanged)) return exchanged;
  RETURN_IF_ERROR(disk_.Rename(final_, replaced_));
  const absl::Status renamed = disk_.Rename(partial_, final_);
  if (!renamed.ok()) disk_.Rename(replaced_, final_).IgnoreError();
  return renamed;
}

absl::StatusOr<CheckpointManifest> CheckpointOutput::Commit() {
  if (elements_ != layout_.num_elements()) {
    return absl::FailedPreconditionError(absl::StrCat("pages of step ", manifest_.step, ": found ",
                                                      elements_, " elements, expected ",
                                                      layout_.num_elements()));
  }
  for (size_t f = 0; f < files_.size(); ++f) {
    ASSIGN_OR_RETURN(CheckpointFile sum, Sum(f));
    manifest_.files.push_back(std::move(sum));
    RETURN_IF_ERROR(disk_.Sync(*files_[f]));
    files_[f].reset();
  }
  // Never a moment without a good one.
  if (const std::optional<CheckpointManifest> existing = Existing(); existing.has_value()) {
    return *existing;
  }
  RETURN_IF_ERROR(disk_.SyncFolder(partial_));
  ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest_));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Disk::File> file, disk_.Create(Path("MANIFEST")));
    RETURN_IF_ERROR(disk_.Write(*file, 0, text));
    RETURN_IF_ERROR(disk_.Sync(*file));
  }
  RETURN_IF_ERROR(disk_.SyncFolder(partial_));
  RETURN_IF_ERROR(TakeName());
  committed_ = true;
  RETURN_IF_ERROR(disk_.SyncFolder(folder_));
  // What had the name. Best effort: the next checkpoint of the job removes what remains.
  disk_.RemoveFolder(partial_).IgnoreError();
  disk_.RemoveFolder(replaced_).IgnoreError();
  return manifest_;
}

}  // namespace sangam
