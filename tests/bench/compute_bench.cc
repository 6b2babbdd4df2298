// How fast the CPU backend computes: matrix products of the shapes that training needs, the
// operations of sequence models, and a whole forward and backward pass of multi-layer perceptrons
// beside its matrix products alone.
//
//   bazel run -c opt //tests/bench:compute_bench
//
// One lane, one thread. Times are the thread's own CPU time, so that other work on the machine
// disturbs them less. Medians over at least 9 repetitions, [min..max].

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/model.pb.h"
#include "tests/bench/model_step.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

using testing::DeviceMatrix;
using testing::RandomFloats;

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Seconds {
  double median, min, max;
};

// Seconds of one `work`: after warming up, at least 9 samples and 0.2 s. A sample repeats what is
// short, because the clock is coarse.
Seconds Measure(const std::function<void()>& work) {
  work();
  int repeats = 1;
  const auto sample = [&] {
    const double start = ThreadSeconds();
    for (int i = 0; i < repeats; ++i) work();
    return ThreadSeconds() - start;
  };
  while (sample() < 2e-4) repeats *= 2;
  std::vector<double> times;
  double total = 0;
  while (times.size() < 9 || total < 0.2) {
    const double seconds = sample();
    total += seconds;
    times.push_back(seconds / repeats);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

enum class Pass { kForward, kInputGradient, kWeightGradient };

// The three products of a linear layer, on operands of their own.
class Product {
 public:
  Product(Backend* backend, Pass pass, int64_t rows, int64_t in, int64_t out)
      : backend_(backend),
        x_(backend, rows, in, RandomFloats(rows * in, 1)),
        w_(backend, out, in, RandomFloats(out * in, 2)),
        y_(backend, rows, out, RandomFloats(rows * out, 3)) {
    flops_ = 2.0 * static_cast<double>(rows * in * out);
    switch (pass) {
      case Pass::kForward:
        arguments_.a = x_.view();
        arguments_.b = w_.view();
        arguments_.transpose_b = true;
        arguments_.c = y_.view();
        break;
      case Pass::kInputGradient:
        arguments_.a = y_.view();
        arguments_.b = w_.view();
        arguments_.c = x_.view();
        break;
      case Pass::kWeightGradient:
        arguments_.a = y_.view();
        arguments_.transpose_a = true;
        arguments_.b = x_.view();
        arguments_.c = w_.view();
        arguments_.accumulate = true;
        break;
    }
  }

  void Run() const { CheckOk(backend_->Gemm(arguments_)); }
  double flops() const { return flops_; }

 private:
  Backend* backend_;
  DeviceMatrix x_, w_, y_;
  GemmArguments arguments_;
  double flops_ = 0;
};

// Thousands of millions of `work` per second.
std::string Rate(double work, const Seconds& t) {
  const double g = work * 1e-9;
  return absl::StrFormat("%.1f [%.1f..%.1f]", g / t.median, g / t.max, g / t.min);
}

void PrintProducts(Backend* backend) {
  std::printf("matrix products, GFLOP/s\n");
  std::printf("%5s %12s  %-22s %-22s %-22s\n", "rows", "in x out", "y = x W^T", "dx = dy W",
              "dW += dy^T x");
  const std::vector<std::pair<int64_t, int64_t>> layers = {
      {784, 512}, {512, 512}, {512, 10}, {784, 2048}, {2048, 2048}};
  for (const int64_t rows : {8, 32, 64, 256}) {
    for (const auto& [in, out] : layers) {
      std::printf("%5d %12s ", static_cast<int>(rows), absl::StrCat(in, "x", out).c_str());
      for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
        const Product product(backend, pass, rows, in, out);
        const Seconds t = Measure([&] { product.Run(); });
        std::printf(" %-22s", Rate(product.flops(), t).c_str());
      }
      std::printf("\n");
    }
  }
}

// Causal attention counts only the products that the mask leaves: 2 forward, 5 backward (the scores
// are computed again).
void PrintAttention(Backend* backend) {
  std::printf("\ncausal attention, GFLOP/s\n");
  std::printf("%9s %9s %12s  %-22s %-22s\n", "sequences", "positions", "heads x width", "forward",
              "backward");
  struct Sizes {
    int64_t sequences, positions, heads, width;
  };
  for (const Sizes& s :
       {Sizes{8, 64, 4, 32}, Sizes{8, 128, 4, 32}, Sizes{8, 128, 4, 64}, Sizes{8, 256, 8, 32},
        Sizes{8, 256, 8, 64}, Sizes{8, 250, 3, 20}, Sizes{2, 1024, 8, 64}}) {
    const int64_t rows = s.sequences * s.positions;
    const int64_t cols = s.heads * s.width;
    AttentionShape shape;
    shape.positions = s.positions;
    shape.heads = s.heads;
    const DeviceMatrix qkv(backend, rows, 3 * cols, RandomFloats(rows * 3 * cols, 1));
    const DeviceMatrix out(backend, rows, cols);
    const DeviceMatrix log_sum(backend, rows, s.heads);
    const DeviceMatrix out_gradient(backend, rows, cols, RandomFloats(rows * cols, 2));
    const DeviceMatrix qkv_gradient(backend, rows, 3 * cols);
    const auto pairs =
        static_cast<double>(s.sequences * s.heads * s.positions * (s.positions + 1) / 2);
    const double product = 2 * pairs * static_cast<double>(s.width);
    const Seconds forward = Measure(
        [&] { CheckOk(backend->CausalAttention(shape, qkv.view(), out.view(), log_sum.view())); });
    const Seconds backward = Measure([&] {
      CheckOk(backend->CausalAttentionBackward(shape, qkv.view(), out.view(), log_sum.view(),
                                               out_gradient.view(), qkv_gradient.view()));
    });
    std::printf("%9d %9d %12s   %-22s %-22s\n", static_cast<int>(s.sequences),
                static_cast<int>(s.positions), absl::StrCat(s.heads, "x", s.width).c_str(),
                Rate(2 * product, forward).c_str(), Rate(5 * product, backward).c_str());
  }
}

// Operations bound by memory: bytes read and written once each.
void PrintMoves(Backend* backend) {
  std::printf("\nrows of sequence models, GB/s\n");
  std::printf("%12s  %-20s %-20s %-20s %-20s %-20s %-20s %-20s\n", "rows x width", "add",
              "rms norm", "its backward", "its gain's", "lookup", "its backward", "rotate");
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{1024, 128}, {2048, 256}, {2048, 512}}) {
    constexpr int64_t kVocabulary = 256;
    const DeviceMatrix x(backend, rows, cols, RandomFloats(rows * cols, 1));
    const DeviceMatrix dy(backend, rows, cols, RandomFloats(rows * cols, 2));
    const DeviceMatrix y(backend, rows, cols);
    const DeviceMatrix gain(backend, 1, cols, RandomFloats(cols, 3));
    const DeviceMatrix dgain(backend, 1, cols, std::vector<float>(static_cast<size_t>(cols), 0));
    const DeviceMatrix inverse_rms(backend, rows, 1);
    std::vector<float> tokens;
    for (int64_t r = 0; r < rows; ++r) {
      tokens.push_back(static_cast<float>(r * r % kVocabulary));
    }
    const DeviceMatrix tokens_device(backend, rows, 1, tokens);
    const DeviceMatrix table(backend, kVocabulary, cols, RandomFloats(kVocabulary * cols, 4));
    const DeviceMatrix qkv(backend, rows, 3 * cols, RandomFloats(rows * 3 * cols, 5));
    Rotation rotation;
    rotation.positions = 128;
    rotation.heads = 4;
    const double matrix = 4.0 * static_cast<double>(rows * cols);
    const std::vector<std::pair<double, std::function<absl::Status()>>> operations = {
        {3 * matrix, [&] { return backend->Add(x.view(), y.view(), y.view()); }},
        {2 * matrix,
         [&] {
           return backend->RmsNorm(x.view(), gain.view(), 1e-5f, y.view(), inverse_rms.view());
         }},
        {3 * matrix,
         [&] {
           return backend->RmsNormBackward(x.view(), gain.view(), inverse_rms.view(), dy.view(),
                                           y.view());
         }},
        {2 * matrix,
         [&] {
           return backend->RmsNormGainGradient(x.view(), inverse_rms.view(), dy.view(), false,
                                               dgain.view());
         }},
        {2 * matrix, [&] { return backend->Lookup(tokens_device.view(), table.view(), y.view()); }},
        {3 * matrix,
         [&] { return backend->LookupBackward(tokens_device.view(), dy.view(), table.view()); }},
        // Queries and keys, in place.
        {4 * matrix, [&] { return backend->Rotate(rotation, qkv.view(), qkv.view()); }},
    };
    std::printf("%12s ", absl::StrCat(rows, "x", cols).c_str());
    for (const auto& [bytes, operation] : operations) {
      const Seconds t = Measure([&, &run = operation] { CheckOk(run()); });
      std::printf(" %-20s", Rate(bytes, t).c_str());
    }
    std::printf("\n");
  }
}

void PrintConvolutions(Backend* backend) {
  std::printf("\nconvolutions, GFLOP/s\n");
  std::printf("%-26s %-20s %-20s %-20s\n", "images, channels", "forward", "input gradient",
              "weight gradient");
  // Of a small network for 28 x 28 images and a residual one for 32 x 32.
  const std::vector<std::pair<int64_t, WindowShape>> shapes = {
      {32, {{28, 28, 1}, {3, 3, 1, 1}, 32}},   {32, {{14, 14, 32}, {3, 3, 1, 1}, 64}},
      {128, {{14, 14, 32}, {3, 3, 1, 1}, 64}}, {32, {{32, 32, 3}, {3, 3, 1, 1}, 16}},
      {32, {{32, 32, 16}, {3, 3, 1, 1}, 16}},  {32, {{32, 32, 16}, {3, 3, 2, 1}, 32}},
      {32, {{16, 16, 32}, {3, 3, 1, 1}, 32}},  {32, {{8, 8, 64}, {3, 3, 1, 1}, 64}}};
  for (const auto& [images, shape] : shapes) {
    const int64_t cols = 9 * shape.in.channels;
    const int64_t in = shape.in.elements();
    const int64_t out = shape.out().elements();
    const DeviceMatrix x(backend, images, in, RandomFloats(images * in, 1));
    const DeviceMatrix y(backend, images, out, RandomFloats(images * out, 2));
    const DeviceMatrix dx(backend, images, in);
    const DeviceMatrix weight(backend, shape.out_channels, cols,
                              RandomFloats(shape.out_channels * cols, 3));
    const DeviceMatrix dw(backend, shape.out_channels, cols);
    const std::vector<std::function<absl::Status()>> operations = {
        [&, &of = shape] {
          return backend->Conv2dBackwardInput(of, weight.view(), y.view(), dx.view());
        },
        [&, &of = shape] {
          return backend->Conv2dBackwardWeight(of, x.view(), y.view(), false, dw.view());
        }};
    const double operations_count = 2.0 * static_cast<double>(images * out * cols);
    std::printf("%-26s ", absl::StrFormat("%d x %dx%dx%d -> %d", images, shape.in.height,
                                          shape.in.width, shape.in.channels, shape.out_channels)
                              .c_str());
    const Seconds forward = Measure([&, &of = shape] {
      CheckOk(backend->Conv2d(of, x.view(), weight.view(), Epilogue::kNone, {}, y.view()));
    });
    std::printf(" %-20s", Rate(operations_count, forward).c_str());
    for (const auto& operation : operations) {
      const Seconds t = Measure([&] { CheckOk(operation()); });
      std::printf(" %-20s", Rate(operations_count, t).c_str());
    }
    std::printf("\n");
  }
}

void PrintBatchNorm(Backend* backend) {
  std::printf("\nbatch norm and pooling of images, GB/s\n");
  std::printf("%12s  %-20s %-20s %-20s %-20s %-20s %-20s\n", "rows x width", "moments", "normalize",
              "its sums", "its backward", "max pool", "its backward");
  constexpr float kEpsilon = 1e-5f;
  for (const auto& [size, channels] :
       std::vector<std::pair<int64_t, int64_t>>{{32, 16}, {16, 32}, {8, 64}}) {
    constexpr int64_t kImages = 32;
    const int64_t rows = kImages * size * size;
    const DeviceMatrix x(backend, rows, channels, RandomFloats(rows * channels, 1));
    const DeviceMatrix dy(backend, rows, channels, RandomFloats(rows * channels, 2));
    const DeviceMatrix y(backend, rows, channels);
    const DeviceMatrix mean(backend, 1, channels);
    const DeviceMatrix variance(backend, 1, channels);
    const DeviceMatrix gain(backend, 1, channels, RandomFloats(channels, 3));
    const DeviceMatrix sums(backend, 2, channels);
    const WindowShape pool = {{size, size, channels}, {2, 2, 2, 0}, channels};
    const Matrix images = {x.view().data, kImages, size * size * channels};
    const Matrix gradients = {y.view().data, kImages, size * size * channels};
    const DeviceMatrix pooled(backend, kImages, pool.out().elements());
    const double matrix = 4.0 * static_cast<double>(rows * channels);
    const std::vector<std::pair<double, std::function<absl::Status()>>> operations = {
        {matrix, [&] { return backend->ColumnMoments(x.view(), mean.view(), variance.view()); }},
        {2 * matrix,
         [&] {
           return backend->NormalizeColumns(x.view(), mean.view(), variance.view(), kEpsilon,
                                            gain.view(), mean.view(), y.view());
         }},
        {2 * matrix,
         [&] {
           return backend->BatchNormSums(x.view(), mean.view(), variance.view(), kEpsilon,
                                         dy.view(), sums.view());
         }},
        {3 * matrix,
         [&] {
           return backend->BatchNormBackward(x.view(), mean.view(), variance.view(), kEpsilon,
                                             gain.view(), sums.view(), dy.view(), y.view());
         }},
        {1.25 * matrix, [&] { return backend->MaxPool2d(pool, images, pooled.view()); }},
        {2.5 * matrix,
         [&] {
           return backend->MaxPool2dBackward(pool, images, pooled.view(), pooled.view(), gradients);
         }},
    };
    std::printf("%12s ", absl::StrCat(rows, "x", channels).c_str());
    for (const auto& [bytes, operation] : operations) {
      const Seconds t = Measure([&, &run = operation] { CheckOk(run()); });
      std::printf(" %-20s", Rate(bytes, t).c_str());
    }
    std::printf("\n");
  }
}

// A perceptron with one block per layer, as jobs are written.
v1::ModelSpec Perceptron(const std::vector<int64_t>& widths) {
  v1::ModelSpec model;
  model.add_input_shape(static_cast<uint64_t>(widths[0]));
  for (size_t i = 1; i < widths.size(); ++i) {
    v1::BlockSpec* block = model.add_block();
    block->add_layer()->mutable_linear()->set_out_features(static_cast<uint64_t>(widths[i]));
    if (i + 1 < widths.size()) block->add_layer()->mutable_relu();
  }
  return model;
}

// Seconds of the products of one step, each measured by itself: with its operands in the cache as
// far as they fit, so that a step's ratio to it also counts what its other operations push out.
double SecondsOfProducts(Backend* backend, const std::vector<int64_t>& widths, int64_t rows) {
  double seconds = 0;
  for (size_t i = 1; i < widths.size(); ++i) {
    for (const Pass pass : {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient}) {
      if (pass == Pass::kInputGradient && i == 1) continue;
      const Product product(backend, pass, rows, widths[i - 1], widths[i]);
      seconds += Measure([&] { product.Run(); }).median;
    }
  }
  return seconds;
}

void PrintSteps(Backend* backend) {
  std::printf("\nforward, loss and backward of one micro-batch\n");
  std::printf("%-18s %5s %12s %24s %16s %7s\n", "network", "rows", "samples/s", "step, us",
              "its products, us", "ratio");
  const std::vector<std::pair<std::string, std::vector<int64_t>>> networks = {
      {"784-512-512-10", {784, 512, 512, 10}}, {"784-2048-2048-10", {784, 2048, 2048, 10}}};
  v1::LossSpec loss;
  loss.mutable_softmax_cross_entropy();
  for (const auto& [name, widths] : networks) {
    for (const int64_t rows : {8, 32, 64, 256}) {
      ModelStep network(backend, Perceptron(widths), loss, rows, /*largest_input=*/1);
      const Seconds step = Measure([&] { network.Run(); });
      const double alone = SecondsOfProducts(backend, widths, rows);
      std::printf(
          "%-18s %5d %12.0f %24s %16.0f %7.3f\n", name.c_str(), static_cast<int>(rows),
          static_cast<double>(rows) / step.median,
          absl::StrFormat("%.0f [%.0f..%.0f]", step.median * 1e6, step.min * 1e6, step.max * 1e6)
              .c_str(),
          alone * 1e6, step.median / alone);
    }
  }
}

void Main() {
  const std::unique_ptr<Backend> backend = ValueOf(CreateBackend("cpu"));
  PrintProducts(backend.get());
  PrintAttention(backend.get());
  PrintMoves(backend.get());
  PrintConvolutions(backend.get());
  PrintBatchNorm(backend.get());
  PrintSteps(backend.get());
}

}  // namespace
}  // namespace sangam

int main() {
  sangam::Main();
  return 0;
}
