#include "worker/backend/cpu/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/base/philox.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/cpu/random_words.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
void Dropout(const DropoutAddress& address, float rate, ConstMatrix in, float* out) {
  // ToUnitFloat(bits) >= rate, without rounding, is (bits >> 8) >= rate * 2^24.
  const auto threshold = static_cast<uint32_t>(std::ceil(rate * 16777216.0f));
  const float scale = 1.0f / (1.0f - rate);
  for (int64_t i = 0; i < in.rows; ++i) {
    const uint64_t position = address.first_position + static_cast<uint64_t>(i);
    const RandomStream stream(address.seed, RandomPurpose::kDropout, address.step,
                              uint64_t{address.layer} << 32 | position);
    for (int64_t first = 0; first < in.cols; first += kRandomWords) {
      uint32_t words[kRandomWords];
      RandomWords(stream, static_cast<uint64_t>(first) / 4, words);
      const float* x = in.data + i * in.cols + first;
      float* y = out + i * in.cols + first;
      const int64_t count = std::min<int64_t>(kRandomWords, in.cols - first);
      for (int64_t e = 0; e < count; ++e) {
        const float kept = x[e] * scale;
        y[e] = (words[e] >> 8) >= threshold ? kept : 0.0f;
      }
    }
  }
}

}  // namespace sangam::cpu_kernels
