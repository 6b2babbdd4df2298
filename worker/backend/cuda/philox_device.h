#ifndef SANGAM_WORKER_BACKEND_CUDA_PHILOX_DEVICE_H_
#define SANGAM_WORKER_BACKEND_CUDA_PHILOX_DEVICE_H_

#include <cstdint>

// The random numbers of common/base/philox.h, the same bits, for hosts and devices.
#if defined(__CUDACC__)
#define SANGAM_HOST_DEVICE __host__ __device__
#else
#define SANGAM_HOST_DEVICE
#endif

namespace sangam::cuda_kernels {

struct Words {
  uint32_t v[4];
};

// Philox4x32-10 of a counter under a key.
SANGAM_HOST_DEVICE inline Words Philox(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.v[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.v[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.v[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.v[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// What all addresses of one (seed, purpose, major) have in common.
struct RandomFamily {
  Words folded;
};

SANGAM_HOST_DEVICE inline RandomFamily MakeRandomFamily(uint64_t seed, uint32_t purpose,
                                                        uint64_t major) {
  return {Philox({{static_cast<uint32_t>(major), static_cast<uint32_t>(major >> 32), purpose, 0}},
                 static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32))};
}

// RandomStream at one `minor` of a family: Block(b) gives the numbers of [4 b, 4 b + 4).
struct DeviceRandomStream {
  Words folded;

  SANGAM_HOST_DEVICE Words Block(uint64_t block) const {
    return Philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), folded.v[2],
                    folded.v[3]}},
                  folded.v[0], folded.v[1]);
  }
};

SANGAM_HOST_DEVICE inline DeviceRandomStream StreamOf(const RandomFamily& family, uint64_t minor) {
  const Words& first = family.folded;
  return {Philox(
      {{static_cast<uint32_t>(minor), static_cast<uint32_t>(minor >> 32), first.v[2], first.v[3]}},
      first.v[0], first.v[1])};
}

}  // namespace sangam::cuda_kernels

#undef SANGAM_HOST_DEVICE

#endif  // SANGAM_WORKER_BACKEND_CUDA_PHILOX_DEVICE_H_
