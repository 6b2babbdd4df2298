#include "tests/testing/idx_bytes.h"

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace sangam::testing {

std::string IdxBytes(uint32_t magic, const std::vector<uint32_t>& sizes,
                     const std::string& payload) {
  std::string bytes;
  const auto append = [&bytes](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  };
  append(magic);
  for (const uint32_t size : sizes) append(size);
  return bytes + payload;
}

std::string Gzip(const std::string& content) {
  z_stream stream = {};
  // 15 bits of window, 16 more: with gzip's header and trailer.
  SANGAM_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9,
                            Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  SANGAM_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace sangam::testing
