#ifndef SANGAM_COMMON_DATA_INPUT_FILE_H_
#define SANGAM_COMMON_DATA_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sangam {

// A file and what messages call it.
struct NamedFile {
  std::string path;
  std::string name;
};

// Reads a regular file from front to back. When its first two bytes are gzip's magic number (1f
// 8b), what is read is the uncompressed content of all members, their checksums verified; the
// file's name does not matter. Not thread-safe.
class InputFile {
 public:
  // `path`: without symbolic links, as DataRoot::Resolve gives it; one that is a link by now is
  // refused. `name`: what messages call the file.
  // Errors: NotFound, PermissionDenied, InvalidArgument (not a regular file), Unavailable (other
  // failures of the file system)
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path, std::string name);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads exactly `count` bytes of the content to `out`.
  // Errors: DataLoss     the content ends before; or the gzip data is damaged or truncated
  //         Unavailable  the file system failed
  absl::Status Read(size_t count, uint8_t* out);

  // Reads up to `count` bytes: bytes delivered, at least 1; 0 at the end of the content, which is
  // also the file's. For content whose length nobody has said.
  // Errors: as Read, and ExpectEnd's
  absl::StatusOr<size_t> ReadSome(size_t count, uint8_t* out);

  // OK when nothing follows: the content is at its end, and so is the file.
  // Errors: DataLoss  more content, bytes behind the gzip data, a wrong checksum
  absl::Status ExpectEnd();

  const std::string& name() const { return name_; }
  // Bytes of the content that were read.
  uint64_t offset() const { return offset_; }
  bool gzipped() const { return gzipped_; }
  // The content cannot be longer than this, in bytes: the file's size, or what deflate could make
  // of it at its best ratio. Lets a claimed size be refused before memory is set aside for it.
  uint64_t max_content_bytes() const;

 private:
  struct Inflater;

  InputFile(int descriptor, uint64_t file_bytes, std::string name);
  absl::StatusOr<size_t> ReadRaw(size_t count, uint8_t* out);
  absl::StatusOr<size_t> Inflate(size_t count, uint8_t* out);
  absl::Status StartInflater();
  // At the end of a member: goes on with the next one, or marks the end of the content.
  absl::Status NextMember();
  absl::Status Refill();
  absl::Status Damaged(const char* what) const;

  const int descriptor_;
  const uint64_t file_bytes_;
  const std::string name_;
  bool gzipped_ = false;
  bool content_ended_ = false;
  uint64_t offset_ = 0;
  uint64_t file_offset_ = 0;  // bytes taken from the file
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_INPUT_FILE_H_
