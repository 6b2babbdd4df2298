// Merge + AdamW on whole pages, in bytes per second, beside the STREAM triad of the same process.
//
// Usage: merge_bench [MiB of weights (256)] [pairs (9)]
//
// A page is updated through ParameterPage::Add, as a server does it: n payloads of 64 KiB slices,
// as gRPC delivers them (the elements begin behind a frame header, so they are unaligned and
// straddle slices), are parked, summed, divided and turned into new weights. Counted per parameter:
// 4 n for the payloads, 24 for reading weights and both moments and writing them. Writing the
// weights out of place makes the processor read their lines first: 4 more, reported apart. The
// triad a = b + s c counts 16 for a float, which includes the same reading for ownership.
//
// Triad and merge alternate; a pair's ratio compares neighbours in time. Results are printed, not
// judged.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/plan/page_map.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/model.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parameter_page.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

constexpr size_t kSliceBytes = 64 * 1024;
constexpr size_t kFrameHeaderBytes = 37;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs work(0) ... work(threads - 1) at the same time.
void InParallel(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
}

// A page's gradient as a frame of it arrives.
SlicePayload ReceivedPage(float value) {
  auto slices = std::make_shared<std::vector<std::unique_ptr<uint8_t[]>>>();
  std::vector<uint8_t> frame(kFrameHeaderBytes + kPageElements * sizeof(float));
  for (size_t i = 0; i < kPageElements; ++i) {
    const float element = value * static_cast<float>(i % 1000 + 1);
    std::memcpy(frame.data() + kFrameHeaderBytes + i * sizeof(float), &element, sizeof(element));
  }
  std::vector<ByteSpan> pieces;
  for (size_t begin = 0; begin < frame.size(); begin += kSliceBytes) {
    const size_t count = std::min(kSliceBytes, frame.size() - begin);
    slices->push_back(std::make_unique<uint8_t[]>(count));
    std::memcpy(slices->back().get(), frame.data() + begin, count);
    const size_t skipped = begin == 0 ? kFrameHeaderBytes : 0;
    pieces.push_back({slices->back().get() + skipped, count - skipped});
  }
  return SlicePayload(std::move(pieces), std::move(slices));
}

// Pages with n shares, and one payload for each page and share.
class MergeWork {
 public:
  MergeWork(size_t pages, uint32_t shares) : shares_(shares) {
    v1::OptimizerSpec spec;
    spec.set_learning_rate(1e-3f);
    spec.mutable_adamw();
    const Optimizer optimizer = *Optimizer::Create(spec);
    for (size_t p = 0; p < pages; ++p) {
      ParameterPage::Options options;
      options.element_count = kPageElements;
      options.shares = shares;
      options.ranges = {{0, kPageElements, 0, 0.01f, 0}};
      FloatBuffer initial = *FloatBuffer::Allocate(kPageElements);
      std::fill_n(initial.data(), kPageElements, 0.5f);
      pages_.push_back(*ParameterPage::Create(options, optimizer, std::move(initial)));
      for (uint32_t s = 0; s < shares; ++s) {
        payloads_.push_back(ReceivedPage(1e-4f * static_cast<float>(s + 1)));
      }
    }
  }

  void Step(int thread, int threads) {
    for (size_t p = thread; p < pages_.size(); p += threads) {
      ParameterPage& page = pages_[p];
      const uint64_t step = page.current().step;
      for (uint32_t s = 0; s < shares_; ++s) {
        const auto effects = page.Add({0, step, {s, s + 1}, 32}, payloads_[p * shares_ + s]);
        SANGAM_CHECK(effects.ok());
      }
      SANGAM_CHECK(page.current().step == step + 1);
    }
  }

 private:
  const uint32_t shares_;
  std::vector<ParameterPage> pages_;
  std::vector<SlicePayload> payloads_;
};

class TriadWork {
 public:
  explicit TriadWork(size_t elements)
      : a_(*FloatBuffer::Allocate(elements)),
        b_(*FloatBuffer::Allocate(elements)),
        c_(*FloatBuffer::Allocate(elements)) {}

  void Run(int thread, int threads) {
    const size_t part = a_.size() / static_cast<size_t>(threads) / 16 * 16;
    const size_t first = part * static_cast<size_t>(thread);
    Triad(a_.data() + first, b_.data() + first, c_.data() + first, part);
  }

 private:
  // Blocks of constant length, which every compiler turns into vectors.
  static void Triad(float* __restrict a, const float* __restrict b, const float* __restrict c,
                    size_t count) {
    for (size_t i = 0; i + 16 <= count; i += 16) {
      for (size_t j = 0; j < 16; ++j) a[i + j] = b[i + j] + 3.0f * c[i + j];
    }
  }

  FloatBuffer a_;
  FloatBuffer b_;
  FloatBuffer c_;
};

struct Summary {
  explicit Summary(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    median = values[values.size() / 2];
    min = values.front();
    max = values.back();
  }
  double median = 0;
  double min = 0;
  double max = 0;
};

void Print(const std::string& name, const Summary& s, const char* unit) {
  std::printf("  %-44s median %6.2f  min %6.2f  max %6.2f %s\n", name.c_str(), s.median, s.min,
              s.max, unit);
}

void Compare(size_t pages, uint32_t shares, int pairs) {
  const double parameters = static_cast<double>(pages) * static_cast<double>(kPageElements);
  MergeWork merge(pages, shares);
  TriadWork triad(pages * kPageElements);
  for (int threads = 1; threads <= 2; ++threads) {
    std::vector<double> triads, merges, with_ownership, ratios;
    for (int pair = -1; pair < pairs; ++pair) {
      const double triad_rate =
          16 * parameters /
          Seconds([&] { InParallel(threads, [&](int t) { triad.Run(t, threads); }); }) / 1e9;
      const double seconds =
          Seconds([&] { InParallel(threads, [&](int t) { merge.Step(t, threads); }); });
      if (pair < 0) continue;  // the first pair warms up
      const double bytes = 4.0 * shares + 24;
      triads.push_back(triad_rate);
      merges.push_back(bytes * parameters / seconds / 1e9);
      with_ownership.push_back((bytes + 4) * parameters / seconds / 1e9);
      ratios.push_back(merges.back() / triad_rate);
    }
    std::printf("payloads=%u threads=%d pairs=%d\n", shares, threads, pairs);
    Print("triad, 16 B", Summary(triads), "GB/s");
    Print("merge + AdamW, 4n+24 B", Summary(merges), "GB/s");
    Print("merge + AdamW, 4n+28 B (ownership counted)", Summary(with_ownership), "GB/s");
    Print("ratio (4n+24) / triad", Summary(ratios), "");
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  const size_t mebibytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 9;
  if (mebibytes == 0 || pairs <= 0) {
    std::fprintf(stderr, "usage: merge_bench [MiB of weights] [pairs]\n");
    return 2;
  }
  std::printf("weights %zu MiB in pages of 1 MiB, kernels %s\n", mebibytes, FastestKernels().name);
  for (uint32_t shares : {1, 2, 4}) Compare(mebibytes, shares, pairs);
  return 0;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) { return sangam::Main(argc, argv); }
