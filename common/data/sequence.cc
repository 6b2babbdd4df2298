#include "common/data/sequence.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/data/input_file.h"
#include "common/data/token_store.h"

namespace sangam {
namespace {

// llm.c's header of a token file.
constexpr size_t kHeaderBytes = 1024;
constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kVersion = 1;
constexpr uint64_t kTokenBytes = 2;

// Between two looks at `cancelled`.
constexpr size_t kReadBytes = size_t{1024} * 1024;

uint32_t LittleEndian32(const uint8_t* bytes) {
  return bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

absl::Status CheckCancelled(const SequenceDataset::Options& options, const std::string& name) {
  if (options.cancelled == nullptr || !options.cancelled->load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  return absl::CancelledError(absl::StrCat("reading of ", name, " was cancelled"));
}

// The largest of at least one token.
absl::StatusOr<uint32_t> LargestToken(const SequenceDataset::Options& options,
                                      const TokenStore& tokens) {
  uint32_t largest = 0;
  for (uint64_t first = 0; first < tokens.size(); first += kReadBytes) {
    RETURN_IF_ERROR(CheckCancelled(options, options.files.front().name));
    const uint64_t end = std::min<uint64_t>(first + kReadBytes, tokens.size());
    for (uint64_t t = first; t < end; ++t) largest = std::max(largest, tokens.At(t));
  }
  return largest;
}

// Appends the files' tokens to a store.
class Loader {
 public:
  Loader(const SequenceDataset::Options& options, TokenStore* tokens)
      : options_(options), tokens_(*tokens) {}

  absl::Status Load(const NamedFile& named) {
    ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file,
                     InputFile::Open(named.path, named.name));
    RETURN_IF_ERROR(CheckMemory(*file, file->gzipped() ? 0 : file->max_content_bytes()));
    std::optional<uint64_t> claimed;
    if (options_.format == SequenceDataset::Format::kTokens) {
      ASSIGN_OR_RETURN(claimed, ReadHeader(file.get()));
    }
    RETURN_IF_ERROR(ReadRest(file.get()));
    if (options_.format == SequenceDataset::Format::kBytes) return absl::OkStatus();
    return CheckLength(*file, claimed);
  }

 private:
  absl::Status CheckMemory(const InputFile& file, uint64_t more) const {
    const uint64_t held = tokens_.num_bytes();
    if (held <= options_.max_memory_bytes && more <= options_.max_memory_bytes - held) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat(file.name(), ": needs at least ", more, " bytes of memory besides ", held,
                     " that are held, allowed are ", options_.max_memory_bytes));
  }

  absl::Status Append(const InputFile& file, const uint8_t* bytes, size_t count) {
    RETURN_IF_ERROR(CheckMemory(file, count));
    while (count > 0) {
      ASSIGN_OR_RETURN(const TokenStore::Room room, tokens_.MakeRoom(), "%s", file.name());
      const size_t some = std::min(count, room.size);
      std::copy_n(bytes, some, room.data);
      tokens_.Fill(some);
      bytes += some;
      count -= some;
    }
    return absl::OkStatus();
  }

  // The number of tokens that the file's header claims; nothing when it has none, then the bytes
  // looked at are tokens.
  absl::StatusOr<std::optional<uint64_t>> ReadHeader(InputFile* file) {
    std::array<uint8_t, kHeaderBytes> bytes = {};
    size_t count = 0;
    while (count < bytes.size()) {
      ASSIGN_OR_RETURN(const size_t some,
                       file->ReadSome(bytes.size() - count, bytes.data() + count));
      if (some == 0) break;
      count += some;
    }
    if (count < sizeof(uint32_t) || LittleEndian32(bytes.data()) != kMagic) {
      RETURN_IF_ERROR(Append(*file, bytes.data(), count));
      return std::nullopt;
    }
    if (count < bytes.size()) {
      return absl::DataLossError(absl::StrCat(file->name(), ": ends at offset ", count,
                                              ", expected a header of ", bytes.size(),
                                              " bytes behind the magic number ", kMagic));
    }
    const uint32_t version = LittleEndian32(bytes.data() + 4);
    if (version != kVersion) {
      return absl::InvalidArgumentError(absl::StrCat(file->name(), ": version at offset 4: found ",
                                                     version, ", expected ", kVersion));
    }
    return LittleEndian32(bytes.data() + 8);
  }

  absl::Status ReadRest(InputFile* file) {
    for (;;) {
      RETURN_IF_ERROR(CheckCancelled(options_, file->name()));
      ASSIGN_OR_RETURN(const TokenStore::Room room, tokens_.MakeRoom(), "%s", file->name());
      ASSIGN_OR_RETURN(const size_t some,
                       file->ReadSome(std::min(room.size, kReadBytes), room.data));
      if (some == 0) return absl::OkStatus();
      RETURN_IF_ERROR(CheckMemory(*file, some));
      tokens_.Fill(some);
    }
  }

  static absl::Status CheckLength(const InputFile& file, std::optional<uint64_t> claimed) {
    const uint64_t found = file.offset();
    if (claimed.has_value()) {
      const uint64_t expected = kHeaderBytes + *claimed * kTokenBytes;
      if (found == expected) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          file.name(), ": number of tokens at offset 8: found ", *claimed, ", which makes ",
          expected, " bytes with the header, but the file holds ", found));
    }
    if (found % kTokenBytes == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file.name(), ": found ", found, " bytes, the last at offset ", found - 1,
                     " is half a token; expected tokens of ", kTokenBytes, " bytes each"));
  }

  const SequenceDataset::Options& options_;
  TokenStore& tokens_;
};

}  // namespace

SequenceDataset::SequenceDataset(uint64_t positions, TokenStore tokens, uint32_t num_classes)
    : positions_(positions),
      sample_shape_({positions}),
      tokens_(std::move(tokens)),
      num_classes_(num_classes) {}

absl::StatusOr<std::unique_ptr<SequenceDataset>> SequenceDataset::Open(const Options& options) {
  SANGAM_CHECK(options.positions >= 1 && !options.files.empty());
  TokenStore tokens(options.format == Format::kBytes ? 1 : kTokenBytes);
  Loader loader(options, &tokens);
  for (const NamedFile& file : options.files) RETURN_IF_ERROR(loader.Load(file));
  if (tokens.size() < 2 || (tokens.size() - 1) / options.positions == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.files.front().name,
        options.files.size() == 1 ? ""
                                  : absl::StrCat(" and ", options.files.size() - 1, " more files"),
        ": found ", tokens.size(), options.format == Format::kBytes ? " bytes" : " tokens",
        ", expected more than ", options.positions,
        ", the positions of one sample as model.input_shape says"));
  }
  ASSIGN_OR_RETURN(const uint32_t largest, LargestToken(options, tokens));
  return std::unique_ptr<SequenceDataset>(
      new SequenceDataset(options.positions, std::move(tokens), largest + 1));
}

absl::Status SequenceDataset::Read(uint64_t sample, float* row, uint32_t* labels) const {
  if (sample >= num_samples()) {
    return absl::OutOfRangeError(
        absl::StrCat("sample ", sample, ": expected less than ", num_samples()));
  }
  const uint64_t first = sample * positions_;
  if (row != nullptr) {
    for (uint64_t p = 0; p < positions_; ++p) row[p] = static_cast<float>(tokens_.At(first + p));
  }
  if (labels != nullptr) {
    for (uint64_t p = 0; p < positions_; ++p) labels[p] = tokens_.At(first + p + 1);
  }
  return absl::OkStatus();
}

}  // namespace sangam
