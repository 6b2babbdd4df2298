#include "common/data/input_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/data/open_beneath.h"

namespace sangam {
namespace {

constexpr size_t kInputBytes = size_t{256} * 1024;
// A deflate block codes at most 258 bytes in 2 bits (RFC 1951, section 3.2.5).
constexpr uint64_t kMaxDeflateRatio = 1032;
// zlib: 15 bits of window, 16 more: expect a gzip header and trailer.
constexpr int kGzipWindowBits = 15 + 16;
constexpr uint8_t kGzipMagic0 = 0x1f;
constexpr uint8_t kGzipMagic1 = 0x8b;

absl::Status FileError(const std::string& name, const char* action, int error) {
  const std::string message = absl::StrCat(name, ": cannot ", action, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case ELOOP:  // somebody has put a link there since the path was looked up
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

// State of zlib and the compressed bytes that wait for it.
struct InputFile::Inflater {
  z_stream stream = {};
  std::array<uint8_t, kInputBytes> input = {};
  bool started = false;

  ~Inflater() {
    if (started) inflateEnd(&stream);
  }
};

InputFile::InputFile(int descriptor, uint64_t file_bytes, std::string name)
    : descriptor_(descriptor), file_bytes_(file_bytes), name_(std::move(name)) {}

InputFile::~InputFile() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path,
                                                           std::string name) {
  const int descriptor = OpenWithoutLinks(path);
  if (descriptor < 0) return FileError(name, "open", errno);
  struct stat facts = {};
  if (fstat(descriptor, &facts) != 0) {
    const int error = errno;
    close(descriptor);
    return FileError(name, "examine", error);
  }
  std::unique_ptr<InputFile> file(
      new InputFile(descriptor, static_cast<uint64_t>(facts.st_size), std::move(name)));
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file->name_, ": expected a regular file"));
  }
  std::array<uint8_t, 2> magic = {};
  const ssize_t found = pread(descriptor, magic.data(), magic.size(), 0);
  if (found < 0) return FileError(file->name_, "read", errno);
  if (found == 2 && magic[0] == kGzipMagic0 && magic[1] == kGzipMagic1) {
    RETURN_IF_ERROR(file->StartInflater());
  }
  return file;
}

absl::Status InputFile::StartInflater() {
  inflater_ = std::make_unique<Inflater>();
  if (inflateInit2(&inflater_->stream, kGzipWindowBits) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": no memory to decompress it"));
  }
  inflater_->started = true;
  gzipped_ = true;
  return absl::OkStatus();
}

uint64_t InputFile::max_content_bytes() const {
  if (!gzipped_) return file_bytes_;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return file_bytes_ > kMax / kMaxDeflateRatio ? kMax : file_bytes_ * kMaxDeflateRatio;
}

absl::Status InputFile::Read(size_t count, uint8_t* out) {
  size_t done = 0;
  while (done < count) {
    ASSIGN_OR_RETURN(const size_t some, ReadSome(count - done, out + done));
    if (some == 0) {
      return absl::DataLossError(absl::StrCat(name_, ": ends at offset ", offset_,
                                              gzipped_ ? " of the uncompressed content" : "",
                                              ", expected ", count - done, " more bytes"));
    }
    done += some;
  }
  return absl::OkStatus();
}

absl::Status InputFile::ExpectEnd() {
  uint8_t extra = 0;
  const uint64_t end = offset_;
  ASSIGN_OR_RETURN(const size_t some, ReadSome(1, &extra));
  if (some != 0) {
    return absl::DataLossError(absl::StrCat(name_, ": more bytes at offset ", end,
                                            gzipped_ ? " of the uncompressed content" : "",
                                            ", expected the end"));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> InputFile::ReadSome(size_t count, uint8_t* out) {
  if (content_ended_) return 0;
  ASSIGN_OR_RETURN(const size_t some, gzipped_ ? Inflate(count, out) : ReadRaw(count, out));
  offset_ += some;
  return some;
}

absl::StatusOr<size_t> InputFile::ReadRaw(size_t count, uint8_t* out) {
  for (;;) {
    const ssize_t found = read(descriptor_, out, count);
    if (found >= 0) {
      file_offset_ += static_cast<uint64_t>(found);
      return static_cast<size_t>(found);
    }
    if (errno != EINTR) return FileError(name_, "read", errno);
  }
}

absl::Status InputFile::Damaged(const char* what) const {
  return absl::DataLossError(absl::StrCat(name_, ": damaged gzip data before byte ",
                                          file_offset_ - inflater_->stream.avail_in,
                                          " of the file: ", what));
}

absl::Status InputFile::Refill() {
  z_stream& stream = inflater_->stream;
  if (stream.avail_in > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const size_t found, ReadRaw(inflater_->input.size(), inflater_->input.data()));
  stream.next_in = inflater_->input.data();
  stream.avail_in = static_cast<uInt>(found);
  return absl::OkStatus();
}

absl::StatusOr<size_t> InputFile::Inflate(size_t count, uint8_t* out) {
  z_stream& stream = inflater_->stream;
  const uInt wanted = static_cast<uInt>(std::min<size_t>(count, std::numeric_limits<uInt>::max()));
  stream.next_out = out;
  stream.avail_out = wanted;
  // Goes on without output at the borders of blocks and members, never without input.
  while (stream.avail_out == wanted && !content_ended_) {
    RETURN_IF_ERROR(Refill());
    if (stream.avail_in == 0) {
      return absl::DataLossError(absl::StrCat(name_, ": the gzip data is cut off at byte ",
                                              file_offset_, " of the file, after ", offset_,
                                              " bytes of content"));
    }
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      RETURN_IF_ERROR(NextMember());
    } else if (result != Z_OK) {
      return Damaged(stream.msg != nullptr ? stream.msg : zError(result));
    }
  }
  return wanted - stream.avail_out;
}

absl::Status InputFile::NextMember() {
  z_stream& stream = inflater_->stream;
  RETURN_IF_ERROR(Refill());
  if (stream.avail_in == 0) {
    content_ended_ = true;
    return absl::OkStatus();
  }
  if (stream.next_in[0] != kGzipMagic0) {
    return absl::DataLossError(absl::StrCat(name_, ": bytes behind the gzip data at byte ",
                                            file_offset_ - stream.avail_in,
                                            " of the file, expected the end"));
  }
  if (inflateReset(&stream) != Z_OK) return Damaged("cannot go on with the next member");
  return absl::OkStatus();
}

}  // namespace sangam
