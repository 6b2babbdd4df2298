#include "server/runtime/checkpoint_input.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/model_layout.h"
#include "proto/model.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/disk.h"

namespace sangam {
namespace {

// More than the checksums of 100 TB need.
constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 30;

}  // namespace

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Disk::File> file, OpenToRead(folder + "/MANIFEST"));
  ASSIGN_OR_RETURN(const uint64_t size, SizeOf(*file));
  if (size > kMaxManifestBytes) {
    return absl::DataLossError(absl::StrCat(folder, ": MANIFEST: found ", size,
                                            " bytes, expected at most ", kMaxManifestBytes));
  }
  std::string text(size, '\0');
  RETURN_IF_ERROR(ReadExactly(*file, 0, size, text.data()));
  ASSIGN_OR_RETURN(CheckpointManifest manifest, DecodeManifest(text), "%s", folder);
  return manifest;
}

absl::StatusOr<std::unique_ptr<CheckpointInput>> CheckpointInput::Open(const std::string& folder) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(folder));
  ASSIGN_OR_RETURN(const v1::ModelLayout model,
                   BuildModelLayout(manifest.spec.model(), manifest.spec.loss()), "%s", folder);
  const uint64_t hash = LayoutHash(model);
  if (hash != manifest.layout_hash) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": layout of the model: found ", hash, ", expected ",
                     manifest.layout_hash, "; the checkpoint is of another version of Sangam"));
  }
  ASSIGN_OR_RETURN(CheckpointLayout layout, CheckpointLayout::Create(model, manifest.state_names),
                   "%s", folder);
  auto input = absl::WrapUnique(new CheckpointInput(std::move(manifest), std::move(layout)));
  RETURN_IF_ERROR(input->OpenFiles(folder), "%s", folder);
  return input;
}

absl::Status CheckpointInput::OpenFiles(const std::string& folder) {
  for (size_t f = 0; f < files_.size(); ++f) {
    const std::string name = CheckpointLayout::kFileNames[f];
    const auto facts =
        std::find_if(manifest_.files.begin(), manifest_.files.end(),
                     [&name](const CheckpointFile& file) { return file.name == name; });
    if (facts == manifest_.files.end() || facts->bytes != layout_.file_size(f)) {
      return absl::DataLossError(absl::StrCat(
          "MANIFEST: ", name, ": found ", facts == manifest_.files.end() ? 0 : facts->bytes,
          " bytes, expected ", layout_.file_size(f), " for the model"));
    }
    absl::StatusOr<std::unique_ptr<Disk::File>> file = OpenToRead(absl::StrCat(folder, "/", name));
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(absl::StrCat(name, ": found no such file"));
    }
    RETURN_IF_ERROR(file.status());
    ASSIGN_OR_RETURN(const uint64_t size, SizeOf(**file));
    if (size != facts->bytes) {
      return absl::DataLossError(absl::StrCat(name, ", offset ", std::min(size, facts->bytes),
                                              ": found ", size, " bytes, expected ", facts->bytes));
    }
    files_[f].file = *std::move(file);
    files_[f].facts = *facts;
  }
  return absl::OkStatus();
}

absl::Status CheckpointInput::LoadBlock(OpenFile* file, uint64_t block) {
  if (file->block == block) return absl::OkStatus();
  file->block = UINT64_MAX;
  const uint64_t offset = block * kCheckpointBlockBytes;
  file->bytes.resize(std::min(kCheckpointBlockBytes, file->facts.bytes - offset));
  RETURN_IF_ERROR(ReadExactly(*file->file, offset, file->bytes.size(), file->bytes.data()));
  RETURN_IF_ERROR(CheckBlock(file->facts, block, {file->bytes.data(), file->bytes.size()}));
  file->block = block;
  return absl::OkStatus();
}

absl::Status CheckpointInput::Verify() {
  for (OpenFile& file : files_) {
    for (uint64_t block = 0; block < file.facts.checksums.size(); ++block) {
      RETURN_IF_ERROR(LoadBlock(&file, block));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointInput::Copy(OpenFile* file, uint64_t offset, size_t count, char* to) {
  while (count > 0) {
    const uint64_t block = offset / kCheckpointBlockBytes;
    RETURN_IF_ERROR(LoadBlock(file, block));
    const uint64_t within = offset - block * kCheckpointBlockBytes;
    const size_t some = std::min<uint64_t>(count, file->bytes.size() - within);
    std::memcpy(to, file->bytes.data() + within, some);
    offset += some;
    to += some;
    count -= some;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointInput::Read(uint32_t segment, uint64_t first,
                                                  uint64_t count) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointLayout::Piece> pieces,
                   layout_.Pieces(segment, first, count));
  std::string payload(count * sizeof(float) * layout_.num_arrays(), '\0');
  for (const CheckpointLayout::Piece& piece : pieces) {
    char* const to = payload.data() + (piece.array * count + piece.first) * sizeof(float);
    RETURN_IF_ERROR(Copy(&files_[piece.file], piece.offset, piece.count * sizeof(float), to));
  }
  return payload;
}

}  // namespace sangam
