#include "common/model/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/philox.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// Uniform on [-bound, bound): elements [first, first + count) of the parameter.
void FillUniform(const RandomStream& stream, float bound, uint64_t first, uint64_t count,
                 float* out) {
  for (uint64_t i = 0; i < count;) {
    const uint64_t element = first + i;
    const auto numbers = stream.Block(element / 4);
    for (uint64_t k = element % 4; k < 4 && i < count; ++k, ++i) {
      // 2 u - 1 is exact in binary32, so the value has one rounding only.
      out[i] = bound * (2.0f * ToUnitFloat(numbers[k]) - 1.0f);
    }
  }
}

void FillParameter(const v1::ParameterLayout& parameter, uint64_t seed, uint64_t first,
                   uint64_t count, float* out) {
  const RandomStream stream(seed, RandomPurpose::kInitialWeights, parameter.parameter_index(), 0);
  const v1::InitializerSpec& initializer = parameter.initializer();
  switch (initializer.kind_case()) {
    case v1::InitializerSpec::kUniform:
      FillUniform(stream, initializer.uniform().bound(), first, count, out);
      return;
    case v1::InitializerSpec::kFanIn: {
      const double bound = std::sqrt(3.0 * static_cast<double>(initializer.fan_in().gain()) /
                                     static_cast<double>(parameter.fan_in()));
      FillUniform(stream, static_cast<float>(bound), first, count, out);
      return;
    }
    case v1::InitializerSpec::kConstant:
      std::fill(out, out + count, initializer.constant().value());
      return;
    case v1::InitializerSpec::KIND_NOT_SET:
      break;
  }
  // Layouts come from BuildModelLayout, which sets every initializer.
  SANGAM_CHECK(false);
}

}  // namespace

void FillInitialWeights(const v1::SegmentLayout& segment, uint64_t seed, uint64_t first,
                        uint64_t count, float* out) {
  SANGAM_CHECK(first + count <= segment.element_count());
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    const uint64_t begin = std::max(first, parameter.offset());
    const uint64_t end = std::min(first + count, parameter.offset() + parameter.element_count());
    if (begin >= end) continue;
    FillParameter(parameter, seed, begin - parameter.offset(), end - begin, out + (begin - first));
  }
}

}  // namespace sangam
